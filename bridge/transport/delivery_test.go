package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
)

func controlCarriesAMebibyte(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	limit := pc.MaxDatagram()
	message := bytes.Repeat([]byte("achbridge catalog "), (1<<20)/18+1)[:1<<20]
	for _, dir := range [][2]*session.Session{{robot, pc}, {pc, robot}} {
		sent := make(chan error, 1)
		go func() {
			_, err := dir[0].Control().Write(message)
			sent <- err
		}()
		got := make([]byte, len(message))
		if _, err := io.ReadFull(dir[1].Control(), got); err != nil {
			t.Fatalf("read: %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatalf("write: %v", err)
		}
		if !bytes.Equal(got, message) {
			t.Error("control message arrived changed")
		}
	}
	// Larger packets would be lost if the path changed to one with a smaller MTU.
	if got := pc.MaxDatagram(); got != limit {
		t.Errorf("largest datagram: got %d bytes, want %d as at first", got, limit)
	}
}

func datagramsUpToTheLimit(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	limit := pc.MaxDatagram()
	if limit < 1156 {
		t.Fatalf("limit: got %d bytes, want 1156 or more", limit)
	}
	for _, size := range []int{0, 1, 1156, limit} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		if err := pc.SendDatagram(sent); err != nil {
			t.Fatalf("send %d bytes: %v", size, err)
		}
		got, err := receive(t, robot)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("receive: got %d bytes, %v, want %d", len(got), err, size)
		}
	}
	for _, size := range []int{limit + 1, 64 << 10} {
		if err := pc.SendDatagram(make([]byte, size)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("send %d bytes: got %v, want errTooLarge", size, err)
		}
	}
}

func receive(t *testing.T, s *session.Session) ([]byte, error) {
	return s.ReceiveDatagram(await.Context(t))
}

func burstArrivesWhole(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	const count, size = 100, 1000
	sent := make(chan error, 1)
	go func() {
		b := make([]byte, size)
		for i := range count {
			binary.BigEndian.PutUint32(b, uint32(i))
			if err := robot.SendDatagram(b); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	seen := make(map[uint32]bool)
	for len(seen) < count {
		b, err := receive(t, pc)
		if err != nil || len(b) != size {
			t.Fatalf("receive after %d: got %d bytes, %v", len(seen), len(b), err)
		}
		seen[binary.BigEndian.Uint32(b)] = true
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// floodDoesNotStop sends far more datagrams than the reader reads. Datagrams are lost, but the control stream and the
// session must continue.
func floodDoesNotStop(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	for range 2000 {
		if err := pc.SendDatagram(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	controlWorks(t, pc, robot)
	if _, err := receive(t, robot); err != nil {
		t.Errorf("datagram: %v", err)
	}
}

// controlWorks checks that a control message arrives at the other end.
func controlWorks(t *testing.T, from, to *session.Session) {
	t.Helper()
	if _, err := from.Control().Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(to.Control(), got); err != nil || string(got) != "still here" {
		t.Errorf("control: got %q, %v", got, err)
	}
}
