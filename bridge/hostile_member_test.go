package bridge

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/transport/session"
	"achbridge/testnet"
	"achbridge/wire"
)

// member is a hostile program with the network's key. It speaks to one node, and has no node of
// its own.
type member struct {
	w    *world
	name string
	s    *session.Session
	deaf bool // it does not read its control stream

	mu       sync.Mutex
	layouts  func(wire.Describe) wire.Message // answers layout requests; nil means that there is no answer
	received []wire.Message
	number   uint64 // number of its last datagram
	isEnded  bool
}

// member joins the network as a host called name and sends Hello to a node.
func (w *world) member(name string, to *host) *member {
	w.t.Helper()
	h := w.host(name, siegeWire)
	return h.attacks(to, 0)
}

// attacks starts a member on h, which then has no node. Its node id is h's id with another last
// byte but one.
func (h *host) attacks(to *host, variant byte) *member {
	h.w.t.Helper()
	m, err := h.tries(to, variant)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return m
}

// tries is like attacks, but returns the error of a refused session.
func (h *host) tries(to *host, variant byte) (*member, error) {
	h.w.t.Helper()
	conn, err := h.net.Listen(port + int(variant))
	if err != nil {
		h.w.t.Fatal(err)
	}
	id := h.id
	id[14] = variant
	end, err := transport.Listen(conn, transport.Config{Key: h.w.key, Node: id, Host: h.name})
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.w.t.Cleanup(func() { end.Close() })
	s, err := end.Dial(h.w.t.Context(), transport.Addrs{QUIC: to.addr()})
	if err != nil {
		return nil, err
	}
	m := &member{w: h.w, name: h.name, s: s}
	m.say(wire.Hello{Version: wire.Version, Host: h.name, Node: id, Run: 1})
	go m.readAll()
	return m, nil
}

// readAll records the messages of the node, unless deaf is set.
func (m *member) readAll() {
	var head [4]byte
	for {
		for m.isDeaf() {
			time.Sleep(100 * milli)
			select {
			case <-m.s.Done():
				return
			default:
			}
		}
		_, err := io.ReadFull(m.s.Control(), head[:])
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if err == nil {
			_, err = io.ReadFull(m.s.Control(), body)
		}
		msg, _ := wire.ParseMessage(body)
		m.mu.Lock()
		m.received, m.isEnded = append(m.received, msg), err != nil
		answer := m.layouts
		m.mu.Unlock()
		if d, ok := msg.(wire.Describe); ok && answer != nil {
			_ = m.say(answer(d))
		}
		if err != nil {
			return
		}
	}
}

func (m *member) isDeaf() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deaf
}

// say sends a message that package wire accepts.
func (m *member) say(msg wire.Message) error {
	b, err := wire.AppendMessage(nil, msg)
	if err != nil {
		m.w.t.Fatal(err)
	}
	_, err = m.s.Control().Write(b)
	return err
}

// lie sends a message with arbitrary fields.
func (m *member) lie(kind uint, fields any) error {
	body, err := cbor.Marshal([]any{kind, fields})
	if err != nil {
		m.w.t.Fatal(err)
	}
	_, err = m.s.Control().Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// offers advertises channels in a catalog.
func (m *member) offers(list ...wire.Channel) { m.say(wire.Catalog{Full: true, Channels: list}) }

// messages returns the messages of one type that the node has sent.
func messages[T wire.Message](m *member) (list []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range m.received {
		if msg, ok := msg.(T); ok {
			list = append(list, msg)
		}
	}
	return list
}

// serves waits for the node's subscription to a channel and accepts it.
func (m *member) serves(channel string) (id uint32) {
	m.w.t.Helper()
	var s wire.Subscribe
	m.w.within(5*time.Second, "a subscription to "+channel, func() bool {
		list := messages[wire.Subscribe](m)
		i := slices.IndexFunc(list, func(s wire.Subscribe) bool { return s.Channel == channel })
		if i >= 0 {
			s = list[i]
		}
		return i >= 0
	})
	m.say(wire.Subscribed{ID: s.ID, Epoch: s.Epoch, LastSeq: 1 << 40, FrameCount: 16, FrameSize: 64})
	return s.ID
}

// sends sends a datagram with the entries that add appends.
func (m *member) sends(add func(dst []byte, sent time.Duration) []byte) {
	m.number++
	sent := time.Duration(m.number) * milli
	b := wire.AppendHeader(nil, wire.Header{Number: m.number, Sent: sent})
	m.s.SendDatagram(add(b, sent))
}

// frames sends one whole frame.
func (m *member) frames(f wire.Frame) {
	m.sends(func(dst []byte, sent time.Duration) []byte { return wire.AppendFrame(dst, sent, f) })
}

// parts sends one fragment of a frame.
func (m *member) parts(p wire.Part) {
	m.sends(func(dst []byte, sent time.Duration) []byte { return wire.AppendPart(dst, sent, p) })
}

// siege is a robot and a PC that mirrors its data, while a member attacks one of them.
type siege struct {
	*world
	robot, pc *host
	source    *putSource
	data      *channel
	reader    *ageReader
	began     time.Time
	number    uint64
}

var siegeWire = testnet.Params{Delay: 5 * milli, Rate: 100_000_000}

// inSiege runs run in a lone world with a siege. The robot accepts pushes of in*. The PC mirrors the
// robot's data, and all channels of hosts called evil.
func inSiege(t *testing.T, run func(s *siege)) {
	t.Helper()
	inSiegeOver(t, overQUIC, run)
}

// inSiegeOver is like inSiege, over the given transport.
func inSiegeOver(t *testing.T, over string, run func(s *siege)) {
	t.Helper()
	inLoneWorld(t, func(w *world) {
		s := &siege{world: w, robot: w.host("robot", siegeWire), pc: w.host("pc", siegeWire)}
		s.robot.over, s.pc.over = over, over
		s.source = &putSource{dir: s.robot.dir}
		s.data = s.robot.channel("data", 16, 64)
		s.robot.runAt(port, s.source, Config{Accept: rule.GrantTo("in*")})
		s.pc.runAt(port, &putSource{dir: s.pc.dir}, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "data"}, {Host: "evil", Channel: "*"}}})
		s.pc.node.SetPeers([]Peer{{Host: s.robot.name, Node: s.robot.id.String(), Addrs: []transport.Addrs{s.door()}, Static: true}})
		w.within(10*time.Second, "mirror", func() bool { return s.pc.mirror(flowName).State == status.MirrorLive })
		s.reader = openAgeReader(t, s.pc.dir, flowName)
		defer s.reader.ch.Close()
		s.began = time.Now()
		run(s)
	})
}

// door returns the robot's address.
func (s *siege) door() transport.Addrs {
	if s.robot.over == overSCTP {
		return transport.Addrs{SCTP: s.robot.addr()}
	}
	return transport.Addrs{QUIC: s.robot.addr()}
}

// age streams for a while and returns the mean and the greatest age of the PC's mirror, in ms.
func (s *siege) age(long time.Duration) (mean, most float64) {
	s.t.Helper()
	s.reader.ages = s.reader.ages[:0]
	end := time.Now().Add(long)
	for i := 0; time.Now().Before(end); i++ {
		if i%10 == 0 {
			s.number++
			s.data.put(s.number, 64)
			s.source.noticed(s.data.ch)
		}
		time.Sleep(milli)
		if s.reader.sample(s.began, time.Since(s.began)); s.number == 1 {
			s.reader.ages = s.reader.ages[:0] // no frame has arrived yet
		}
	}
	for _, a := range s.reader.ages {
		mean += a / float64(len(s.reader.ages))
		most = max(most, a)
	}
	return mean, most
}

// withstand attacks while the robot's data streams. It fails unless the age stays within twice the
// age before the attack. It returns the memory in use after the attack, in bytes.
func (s *siege) withstand(long time.Duration, attack func()) (held int64) {
	s.t.Helper()
	s.age(time.Second)
	mean, most := s.age(time.Second)
	before := heap()
	var work sync.WaitGroup
	work.Go(attack)
	underMean, underMost := s.age(long)
	work.Wait()
	held = heap() - before
	s.t.Logf("age %.1f ms, at most %.1f; under attack %.1f, at most %.1f; %d KiB held; %d lines logged",
		mean, most, underMean, underMost, held>>10, s.robot.said("\n")+s.pc.said("\n"))
	if underMean > 2*mean || underMost > 2*most {
		s.t.Errorf("age %.1f ms, at most %.1f, want within twice %.1f and %.1f", underMean, underMost, mean, most)
	}
	return held
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// logged fails unless the host's log has text in 1 to lines lines.
func (h *host) logged(text string, lines int) {
	h.w.t.Helper()
	if n := h.said(text); n == 0 || n > lines {
		h.w.t.Errorf("%s's log has %d lines with %q, want 1 to %d", h.name, n, text, lines)
	}
}
