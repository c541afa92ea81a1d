package bridge

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
)

// hostsUnderLoad is a writer, a node that sends its channels and peers that mirror
// them, each a process, over real sockets and shared memory.
type hostsUnderLoad struct {
	b                        *testing.B
	writer, sender, receiver *child
}

// newHosts makes channels of size bytes, and nodes with peers; nobody mirrors yet.
func newHosts(b *testing.B, channels, size, peers int) (h hostsUnderLoad, dir localach.Dir) {
	b.Helper()
	top, err := os.MkdirTemp("/dev/shm", "bridge-cost-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(top) })
	robot, pc := top+"/robot", top+"/pc"
	dir = localach.Dir(robot + "0")
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range channels {
		ch, err := dir.Create("c"+strconv.Itoa(i), localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: size}})
		if err != nil {
			b.Fatal(err)
		}
		ch.Close()
	}
	h.b = b
	var port string
	h.sender, port = play(b, "nodes", "robot", "1", robot)
	h.receiver, _ = play(b, "nodes", "pc", strconv.Itoa(peers), pc, "127.0.0.1:"+port)
	return h, dir
}

// write starts the control loop.
func (h *hostsUnderLoad) write(dir localach.Dir, channels, hz, size int) {
	h.b.Helper()
	h.writer, _ = play(h.b, "writer", string(dir), strconv.Itoa(channels), strconv.Itoa(hz), strconv.Itoa(size))
	h.writer.ask("go")
}

// flows waits until the peers get at least the given part of rate frames a second.
func (h *hostsUnderLoad) flows(rate float64) {
	h.b.Helper()
	var got float64
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		before := h.receiver.spent()
		time.Sleep(200 * time.Millisecond) // a rate is what is waited for
		got = float64(h.receiver.spent().since(before).Frames) / 0.2
		if got > rate {
			return
		}
	}
	h.b.Fatalf("got %.0f frames a second, want %.0f", got, rate)
}

// costs is what the node of the robot and those of its peers spent while for passed.
func (h *hostsUnderLoad) costs(during time.Duration) (sent, received spent) {
	h.b.Helper()
	h.writer.ask("go")
	s, r := h.sender.spent(), h.receiver.spent()
	time.Sleep(during)
	sent, received = h.sender.spent().since(s), h.receiver.spent().since(r)
	h.writer.ask("stop")
	return sent, received
}

// BenchmarkProcessor is the processor time of the nodes for 100 channels of 64 bytes
// at 1 kHz, as a ratio to a bare loop that sends as many bytes in as many datagrams of
// quic-go, those of a millisecond at once; wanted is at most 2 over QUIC. They work in
// turns.
func BenchmarkProcessor(b *testing.B) {
	b.Run(overQUIC, func(b *testing.B) { processor(b, overQUIC, "/bare≤2") })
	b.Run(overSCTP, func(b *testing.B) { processor(b, overSCTP, "/bare") })
}

// processor reports the ratio as who+unit.
func processor(b *testing.B, over, unit string) {
	const channels, hz, size = 100, 1000, 64
	const rounds, round = 5, time.Second
	for b.Loop() {
		b.Setenv(overVar, over)
		h, dir := newHosts(b, channels, size, 1)
		b.Setenv(overVar, overQUIC)
		h.receiver.ask("mirror robot/*")
		h.write(dir, channels, hz, size)
		h.flows(channels * hz / 2)
		sent, _ := h.costs(round)
		perPacket := float64(sent.Frames) / float64(sent.Packets)
		bare := newBareLoop(b, int(perPacket*(size+entryOverhead)))

		var ours, theirs [2]spent // of sender and receiver
		for i := range 2 * rounds {
			if i%4 == 1 || i%4 == 2 {
				s, r := bare.costs(float64(sent.Packets)/round.Seconds(), round)
				theirs = [2]spent{theirs[0].plus(s), theirs[1].plus(r)}
				continue
			}
			s, r := h.costs(round)
			ours = [2]spent{ours[0].plus(s), ours[1].plus(r)}
		}
		for i, who := range []string{"sender", "receiver"} {
			b.ReportMetric(float64(ours[i].CPU)/float64(ours[i].Frames), who+"-ns/frame")
			perPacket := float64(ours[i].CPU) / float64(ours[0].Packets)
			b.ReportMetric(perPacket/(float64(theirs[i].CPU)/float64(theirs[1].Packets)), who+unit)
		}
		b.ReportMetric(float64(ours[0].Frames)/float64(ours[0].Packets), "frames/packet")
		b.ReportMetric(float64(ours[1].Frames)/(rounds*round.Seconds()), "frames/s")
		b.ReportMetric(0, "ns/op")
		h.end()
		bare.sender.end()
		bare.receiver.end()
	}
}

func (h *hostsUnderLoad) end() {
	h.writer.end()
	h.receiver.end()
	h.sender.end()
}

// bareLoop is two processes, one of which sends datagrams to the other.
type bareLoop struct{ sender, receiver *child }

// newBareLoop makes one for datagrams of size bytes.
func newBareLoop(b *testing.B, size int) (l bareLoop) {
	b.Helper()
	var port string
	l.receiver, port = play(b, "bare-receiver")
	l.sender, _ = play(b, "bare-sender", "127.0.0.1:"+port, strconv.Itoa(size))
	l.costs(5000, time.Second/2) // its window grows
	return l
}

// costs is what both spend on so many datagrams a second.
func (l *bareLoop) costs(rate float64, during time.Duration) (sent, received spent) {
	s, r := l.sender.spent(), l.receiver.spent()
	l.sender.ask(fmt.Sprint(rate))
	time.Sleep(during)
	l.sender.ask("0")
	return l.sender.spent().since(s), l.receiver.spent().since(r)
}

func bareReceiverRole([]string) error {
	end, _, err := listenAnywhere("pc", 0)
	if err != nil {
		return err
	}
	defer end.Close()
	var got counter
	go func() {
		s, err := end.Accept(context.Background())
		for err == nil {
			_, err = s.ReceiveDatagram(context.Background())
			got.add()
		}
	}()
	return serve(portOf(end), got.report, nil)
}

// bareSenderRole is ADDR SIZE. Lines say how many packets to send in a second.
func bareSenderRole(args []string) error {
	end, _, err := listenAnywhere("robot", 0)
	if err != nil {
		return err
	}
	defer end.Close()
	addr, err := net.ResolveUDPAddr("udp", args[0])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := end.Dial(context.Background(), listeningAt(addr))
	if err != nil {
		return err
	}
	var left counter
	var rate atomic.Uint64
	go func() {
		frame, due := make([]byte, size), 0.0
		for beat := newBeat(time.Millisecond); ; beat.wait() {
			for due += float64(rate.Load()) / 1000; due >= 1; due-- {
				if s.SendDatagram(frame) != nil {
					return
				}
				left.add()
			}
		}
	}()
	return serve("ready", left.report, func(line string) error {
		packets, err := strconv.ParseFloat(line, 64)
		rate.Store(uint64(packets))
		return err
	})
}
