package hosts

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"achbridge/testnet"
)

// ethernet is the switch to which the hosts are connected. IP packets pass the
// links of the model. ARP and similar frames pass at once, unless the link is cut.
type ethernet struct {
	start time.Time
	names []string
	taps  []*os.File
	timer *timer
	done  sync.WaitGroup

	mu        sync.Mutex
	mesh      *testnet.Mesh[[]byte]
	ports     map[hardware]int
	mappings  map[int]mapping
	listeners []*Listener
	armedFor  time.Duration // when the timer fires; 0 means never
	closed    bool
}

type hardware [6]byte

// hardwareOf returns the hardware address of a host's interface, a locally administered one.
func hardwareOf(number int) hardware { return hardware{2, 0, 0x80, 0x76, 0, byte(number + 1)} }

const (
	headerSize = 14
	maxFrame   = headerSize + 65535
)

// startEthernet starts the switch. It takes over the taps, also on error.
func startEthernet(seed uint64, names []string, p testnet.Params, taps []*os.File) (*ethernet, error) {
	timer, err := newTimer()
	if err != nil {
		closeAll(taps)
		return nil, err
	}
	e := &ethernet{start: time.Now(), names: names, taps: taps, timer: timer, mesh: testnet.NewMesh[[]byte](seed), ports: map[hardware]int{}, mappings: map[int]mapping{}}
	for i, name := range names {
		e.ports[hardwareOf(i)] = e.mesh.AddHost(name, p)
		if i == 0 {
			p = p.Back()
		}
	}
	for i := range taps {
		e.done.Go(func() { e.readFrom(i) })
	}
	e.done.Go(e.keepTime)
	return e, nil
}

func (e *ethernet) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	closeAll(e.taps)
	e.timer.file.Close()
	e.done.Wait()
}

func (e *ethernet) now() time.Duration { return time.Since(e.start) }

func (e *ethernet) readFrom(port int) {
	buf := make([]byte, maxFrame)
	for {
		n, err := e.taps[port].Read(buf)
		if err != nil {
			return // the tap is closed, or the host has ended
		}
		if n >= headerSize {
			e.forward(port, append([]byte(nil), buf[:n]...))
		}
	}
}

func (e *ethernet) keepTime() {
	for e.timer.wait() == nil {
		e.mu.Lock()
		e.armedFor = 0
		e.deliver()
		e.mu.Unlock()
	}
}

func (e *ethernet) forward(from int, frame []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notifyListeners(from, frame)
	to := testnet.Everyone
	e.ports[hardware(frame[6:12])] = from
	if port, known := e.ports[hardware(frame[:6])]; known && frame[0]&1 == 0 {
		to = port
	}
	if to == from {
		return
	}
	size, modelled := packetSize(frame)
	if !modelled {
		e.pass(from, to, frame)
		return
	}
	if to != testnet.Everyone && !e.translate(from, to, frame) {
		return
	}
	e.mesh.Send(e.now(), from, to, size, frame)
	e.deliver()
}

// pass delivers a frame at once, without the model.
func (e *ethernet) pass(from, to int, frame []byte) {
	for port := range e.taps {
		if port != from && (to == testnet.Everyone || to == port) && !e.mesh.Cut(from, port) {
			e.write(port, frame)
		}
	}
}

// deliver delivers frames that have arrived and sets the timer for the next arrival.
func (e *ethernet) deliver() {
	for a, ok := e.mesh.Receive(e.now()); ok; a, ok = e.mesh.Receive(e.now()) {
		e.write(a.To, a.Payload)
	}
	at, ok := e.mesh.Next()
	if !ok || at == e.armedFor || e.closed {
		return
	}
	e.armedFor = at
	e.timer.set(at - e.now())
}

// write writes a frame to a host. If the host's interface is down, the frame is
// lost, as on a cable.
func (e *ethernet) write(port int, frame []byte) { e.taps[port].Write(frame) }

func (e *ethernet) change(target, text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deliver()
	err := e.mesh.Change(e.now(), target, text)
	e.deliver()
	return err
}

func (e *ethernet) settings() []testnet.Setting {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mesh.Settings()
}

// packetSize returns the size of the IP packet in a frame, including the header, and
// whether the model applies to the frame. It does not apply to neighbour discovery
// (RFC 4861) and group membership (IGMP, and MLD, which follows a hop-by-hop header).
// Otherwise the packets that a host sends when its interface comes up would interfere
// with a measurement.
func packetSize(frame []byte) (size int, modelled bool) {
	const (
		typeIPv4, typeIPv6 = 0x0800, 0x86dd
		igmp               = 2
		hopByHop, icmp6    = 0, 58
		solicit, redirect  = 133, 137 // first and last ICMPv6 type of neighbour discovery
	)
	packet := frame[headerSize:]
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == typeIPv4 && len(packet) >= 20:
		return min(int(binary.BigEndian.Uint16(packet[2:])), len(packet)), packet[9] != igmp
	case kind == typeIPv6 && len(packet) > 40:
		next, message := packet[6], packet[40]
		discovery := next == icmp6 && message >= solicit && message <= redirect
		return min(40+int(binary.BigEndian.Uint16(packet[4:])), len(packet)), next != hopByHop && !discovery
	}
	return 0, false
}
