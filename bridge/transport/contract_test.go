package transport

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// stage is the least that a scenario needs. Each has what the ones before it have.
type stage int

const (
	onSessions  stage = iota // a pair of sessions
	onEndpoints              // endpoints with sockets, keys and logs
	onAir                    // a network that can be cut and loses, time that costs nothing
)

// contract has the scenarios that every transport must pass. They use only the exported methods.
var contract = []struct {
	name  string
	run   scenario
	stage stage
}{
	{"BothEndsKnowEachOther", bothEndsKnowEachOther, onEndpoints},
	{"WrongKeyIsRefusedAndLoggedOnBothSides", wrongKeyIsRefused, onEndpoints},
	{"OwnNodeIsRefused", ownNodeIsRefused, onEndpoints},
	{"OwnNodeIsRefusedWhateverIsLost", ownNodeIsRefusedWhateverIsLost, onAir},
	{"ControlCarriesAMebibyteEachWay", controlCarriesAMebibyte, onSessions},
	{"DatagramsUpToTheLimitArrive", datagramsUpToTheLimit, onSessions},
	{"BurstArrivesWhole", burstArrivesWhole, onSessions},
	{"FloodDoesNotStopTheSession", floodDoesNotStop, onSessions},
	{"StreamCarriesAMebibyteToItsEnd", streamCarriesAMebibyte, onSessions},
	{"StreamSurvivesLoss", streamSurvivesLoss, onAir},
	{"StreamsArriveInTheOrderOpened", streamsArriveInOrder, onSessions},
	{"ResetEndsAStreamAtOnce", resetEndsStream, onSessions},
	{"StoppedReaderEndsTheWriter", stoppedReaderEndsWriter, onSessions},
	{"UnreadStreamHoldsUpNobodyElse", unreadStreamHoldsUpNobody, onSessions},
	{"StreamLimitIsAnError", streamLimitIsAnError, onSessions},
	{"UnreadStreamsLeaveControlAlone", unreadStreamsLeaveControl, onSessions},
	{"AcceptStreamEndsWithItsContext", acceptStreamEndsWithContext, onSessions},
	{"CloseEndsBlockedStreams", closeEndsBlockedStreams, onSessions},
	{"DatagramsOvertakeStreams", datagramsOvertakeStreams, onAir},
	{"VanishedPeerIsNoticed", vanishedPeerIsNoticed, onAir},
	{"SilentAddressFailsTheDial", silentAddress, onAir},
	{"DialEndsWithItsContext", dialEndsWithContext, onAir},
	{"QuietSessionStaysAlive", quietSessionStays, onAir},
	{"RoundTripForgetsTheHandshake", roundTripForgetsHandshake, onAir},
	{"MovedPeerKeepsTheSession", movedPeerKeepsSession, onAir},
	{"QuietMovedPeerKeepsTheSession", quietMovedPeerKeepsSession, onAir},
	{"LiarCannotAimTheSessionAtAVictim", liarCannotAimAtVictim, onAir},
	{"DiallerClosesWithReason", diallerCloses, onSessions},
	{"ListenerClosesWithReason", listenerCloses, onSessions},
	{"RestartedPeerIsNoticed", restartedPeerIsNoticed, onEndpoints},
	{"EndpointCloseEndsEverything", endpointCloseEnds, onEndpoints},
	{"BrokenSocketIsReported", brokenSocketIsReported, onEndpoints},
	{"NodesDialEachOtherAtOnce", nodesDialEachOther, onEndpoints},
	{"UnacceptedSessionsAreTurnedAway", unacceptedSessions, onEndpoints},
}

// transports are the ways of listening on a socket.
var transports = []struct {
	name   string
	listen func(net.PacketConn, Config) (*Endpoint, error)
}{
	{"QUIC", Listen},
	{"SCTP", listenOverSCTP},
}

func listenOverSCTP(conn net.PacketConn, cfg Config) (*Endpoint, error) {
	cfg.SCTP = conn
	return Listen(nil, cfg)
}

func TestTransportsKeepContract(t *testing.T) {
	for _, c := range contract {
		for _, tr := range transports {
			t.Run(c.name+"/"+tr.name, inBubble(tr.listen, c.run))
		}
	}
}

// With real sockets every day what is of endpoints; what sessions carry is in real daemons' tests too.
func TestTransportsKeepContractOnLoopback(t *testing.T) {
	before := openDescriptors(t)
	for _, c := range contract {
		for _, tr := range transports {
			if c.stage == onEndpoints || c.stage == onSessions && need.IsLong() {
				t.Run(c.name+"/"+tr.name, onLoopback(tr.listen, c.run))
			}
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

func TestPipeKeepsContract(t *testing.T) {
	for _, c := range contract {
		if c.stage > onSessions {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.run(t, &lab{pair: func(*testing.T) (robot, pc *session.Session) {
					pc, robot = session.Pipe(trust.Peer{Node: nodeOf("pc"), Host: "pc"}, trust.Peer{Node: nodeOf("robot"), Host: "robot"})
					return robot, pc
				}})
			})
		})
	}
}

// openDescriptors counts them, after the runtime's poller has its own.
func openDescriptors(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func bothEndsKnowEachOther(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "Küche pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	if got, want := robot.Peer(), (trust.Peer{Node: nodeOf("Küche pc"), Host: "Küche pc"}); got != want {
		t.Errorf("robot's peer: got %v, want %v", got, want)
	}
	if got, want := pc.Peer(), (trust.Peer{Node: nodeOf("robot"), Host: "robot"}); got != want {
		t.Errorf("pc's peer: got %v, want %v", got, want)
	}
	if robot.Dialled() || !pc.Dialled() {
		t.Errorf("dialled: got robot %t, pc %t, want false, true", robot.Dialled(), pc.Dialled())
	}
	if got, want := pc.RemoteAddr().String(), robotEnd.localAddr().String(); got != want {
		t.Errorf("pc's remote address: got %s, want %s", got, want)
	}
	if got, want := robot.RemoteAddr().String(), pcEnd.localAddr().String(); got != want {
		t.Errorf("robot's remote address: got %s, want %s", got, want)
	}
	for _, s := range []*session.Session{robot, pc} {
		if s.Err() != nil || s.Window() < 10_000 && s.MaxDatagram() > 0 || s.RTT() <= 0 {
			t.Errorf("fresh session: err %v, window %d, round trip %v", s.Err(), s.Window(), s.RTT())
		}
	}
}

func wrongKeyIsRefused(t *testing.T, l *lab) {
	ours := l.node(t, "robot")
	theirs := l.start(t, Config{Key: l.keys[1], Node: nodeOf("spy"), Host: "spy"})
	dials := 3 // within one second: one line
	if l.air == nil {
		dials = 1 // in real time, which may take longer
	}
	for range dials {
		s, err := theirs.Dial(t.Context(), ours.LocalAddrs())
		if s != nil || !errors.Is(err, trust.ErrWrongKey) {
			t.Fatalf("dial with another key: got %v, %v, want ErrWrongKey", s, err)
		}
	}
	message := trust.ErrWrongKey.Error()
	await.True(t, "logged by the listener", func() bool { return len(l.logs[ours].lines(message)) > 0 })
	for _, side := range []struct {
		end  *Endpoint
		want []string
	}{
		{ours, []string{"peer=" + theirs.localAddr().String(), "network=" + l.keys[0].Network(), "peer_network=" + l.keys[1].Network()}},
		{theirs, []string{"peer=" + ours.localAddr().String(), "network=" + l.keys[1].Network(), "peer_network=" + l.keys[0].Network(), "host=robot"}},
	} {
		lines := l.logs[side.end].lines("")
		if len(lines) != 1 || !strings.Contains(lines[0], message) {
			t.Errorf("log: got %q, want one line %q", lines, message)
			continue
		}
		for _, want := range side.want {
			if !strings.Contains(lines[0], want) {
				t.Errorf("log line %q: want %q in it", lines[0], want)
			}
		}
	}
	nobodyArrives(t, ours)
}

func ownNodeIsRefused(t *testing.T, l *lab) {
	e := l.node(t, "robot")
	if _, err := e.Dial(t.Context(), e.LocalAddrs()); !errors.Is(err, session.ErrSelf) {
		t.Errorf("dialling ourselves: got %v, want errSelf", err)
	}
	copied := l.start(t, Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "copy"})
	if _, err := copied.Dial(t.Context(), e.LocalAddrs()); !errors.Is(err, session.ErrSelf) {
		t.Errorf("dialling a copy of our state: got %v, want errSelf", err)
	}
	nobodyArrives(t, e)
	if lines := l.logs[e].lines(""); len(lines) != 0 {
		t.Errorf("log: got %q, want nothing", lines)
	}
}

// The end that refuses first sends a goodbye, which may arrive before the last packet of its
// handshake, or instead of it.
func ownNodeIsRefusedWhateverIsLost(t *testing.T, l *lab) {
	e := l.node(t, "robot")
	copied := l.start(t, Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "copy"})
	for n := 1; n <= 20; n++ { // no handshake that fails has more packets
		l.air.loseOne(n)
		if _, err := copied.Dial(t.Context(), e.LocalAddrs()); !errors.Is(err, session.ErrSelf) {
			t.Errorf("packet %d lost: got %v, want errSelf", n, err)
		}
	}
	nobodyArrives(t, e)
	if lines := l.logs[e].lines(""); len(lines) != 0 {
		t.Errorf("log: got %q, want nothing", lines)
	}
}

// nobodyArrives checks that Accept has no session to return.
func nobodyArrives(t *testing.T, e *Endpoint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := e.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accept: got %v, %v, want nobody", s, err)
	}
}

func nodesDialEachOther(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	dialled := make(chan error, 2)
	for _, d := range [][2]*Endpoint{{robotEnd, pcEnd}, {pcEnd, robotEnd}} {
		go func() {
			_, err := d[0].Dial(t.Context(), d[1].LocalAddrs())
			dialled <- err
		}()
	}
	for range 2 {
		if err := <-dialled; err != nil {
			t.Error(err)
		}
	}
	for _, e := range []*Endpoint{robotEnd, pcEnd} {
		if _, err := e.Accept(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The round trip must not include timeouts of lost handshake packets.
func roundTripForgetsHandshake(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	for n := 1; n <= 14; n++ {
		l.air.loseOne(n)
		robot, pc := l.join(t, robotEnd, pcEnd)
		time.Sleep(time.Second)
		for _, s := range []*session.Session{robot, pc} {
			if rtt := s.RTT(); rtt < 2*oneWay || rtt > 4*oneWay {
				t.Errorf("packet %d lost, dialled %t: round trip %v, want %v", n, s.Dialled(), rtt, 2*oneWay)
			}
		}
		pc.Close("")
		waitDone(t, robot)
	}
}

func unacceptedSessions(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	var refused error
	var dialled []*session.Session
	for range maxArrivals + 1 {
		s, err := pcEnd.Dial(t.Context(), robotEnd.LocalAddrs())
		if refused = cmp.Or(refused, err); err == nil { // the welcome may come before the closing
			dialled = append(dialled, s)
		}
	}
	await.True(t, "one is turned away", func() bool { // in real time perhaps not the last
		for _, s := range dialled {
			refused = cmp.Or(refused, s.Err())
		}
		return refused != nil
	})
	if !strings.Contains(refused.Error(), "closed by peer: too many sessions") {
		t.Errorf("err: got %v", refused)
	}
	for range maxArrivals {
		if _, err := robotEnd.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.join(t, robotEnd, pcEnd)
}
