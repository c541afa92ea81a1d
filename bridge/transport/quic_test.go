package transport

import (
	"strings"
	"testing"
	"testing/synctest"
)

// Whoever holds the key may announce datagrams in which there is room for nothing: none of
// them becomes a session, from either side.
func TestPeerWithoutRoomInItsDatagramsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		robot, pc, _ := nodesOnTestnet(t, 0)
		odd := pc.quic.(*quicProtocol)
		odd.dialConf.EnableDatagrams = false // quic-go knows no smaller number but none
		to := robot.LocalAddrs()
		to.SCTP = nil
		s, err := pc.Dial(t.Context(), to)
		if err == nil {
			t.Fatalf("got a session with datagrams of %d bytes", s.MaxDatagram())
		}
		if !strings.Contains(err.Error(), "no achbridge") {
			t.Errorf("got %v", err)
		}
	})
}
