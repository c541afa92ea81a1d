package session

import (
	"testing"

	"achbridge/bridge/trust"
)

var (
	robotPeer = trust.Peer{Node: trust.NodeID{1}, Host: "robot"}
	pcPeer    = trust.Peer{Node: trust.NodeID{2}, Host: "pc"}
)

func TestPipeEndsKnowTheirPeers(t *testing.T) {
	pc, robot := Pipe(pcPeer, robotPeer)
	if pc.Peer() != robotPeer || robot.Peer() != pcPeer {
		t.Errorf("peers: got %v and %v", pc.Peer(), robot.Peer())
	}
	if !pc.Dialled() || robot.Dialled() {
		t.Errorf("dialled: got %t, %t, want only the first", pc.Dialled(), robot.Dialled())
	}
	if pc.RemoteAddr() == robot.RemoteAddr() {
		t.Errorf("remote addresses: got %v twice", pc.RemoteAddr())
	}
}

// Datagrams must not allocate here, so that a benchmark above sees its own
// allocations only.
func TestPipeCarriesDatagramsWithoutAllocation(t *testing.T) {
	pc, robot := Pipe(pcPeer, robotPeer)
	b := make([]byte, pc.MaxDatagram())
	const datagrams = 100
	allocs := testing.AllocsPerRun(100, func() {
		for range datagrams {
			if err := pc.SendDatagram(b); err != nil {
				t.Fatal(err)
			}
			if _, err := robot.ReceiveDatagram(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 0 { // AllocsPerRun rounds down: one piece of memory for two runs
		t.Errorf("allocations in %d datagrams: got %v, want less than one", datagrams, allocs)
	}
}

func TestReceivedDatagramIsNotReused(t *testing.T) {
	pc, robot := Pipe(pcPeer, robotPeer)
	var kept [][]byte
	for i := range 1000 {
		if err := pc.SendDatagram([]byte{byte(i), byte(i >> 8)}); err != nil {
			t.Fatal(err)
		}
		d, err := robot.ReceiveDatagram(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, append(d, "appended"...))
	}
	for i, d := range kept {
		if want := string([]byte{byte(i), byte(i >> 8)}) + "appended"; string(d) != want {
			t.Fatalf("datagram %d: got %q, want %q", i, d, want)
		}
	}
}
