package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/overtls"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
)

// notThroughHub lists the scenarios of the contract that do not apply to sessions through a hub.
var notThroughHub = map[string]string{
	"OwnNodeIsRefusedWhateverIsLost":   "a stream loses nothing",
	"DatagramsUpToTheLimitArrive":      "no datagrams",
	"BurstArrivesWhole":                "no datagrams",
	"FloodDoesNotStopTheSession":       "no datagrams",
	"StreamCarriesAMebibyteToItsEnd":   "no streams",
	"StreamSurvivesLoss":               "no streams",
	"StreamsArriveInTheOrderOpened":    "no streams",
	"ResetEndsAStreamAtOnce":           "no streams",
	"StoppedReaderEndsTheWriter":       "no streams",
	"UnreadStreamHoldsUpNobodyElse":    "no streams",
	"StreamLimitIsAnError":             "no streams",
	"UnreadStreamsLeaveControlAlone":   "no streams",
	"AcceptStreamEndsWithItsContext":   "no streams",
	"CloseEndsBlockedStreams":          "no streams",
	"DatagramsOvertakeStreams":         "no datagrams",
	"QuietSessionStaysAlive":           "pings are rarer, see TestQuietSessionThroughHubStaysAlive",
	"RoundTripForgetsTheHandshake":     "a stream loses nothing",
	"MovedPeerKeepsTheSession":         "the stream has the address",
	"QuietMovedPeerKeepsTheSession":    "the stream has the address",
	"LiarCannotAimTheSessionAtAVictim": "the stream has the address",
	"RestartedPeerIsNoticed":           "the stream ends with the process",
	"BrokenSocketIsReported":           "the endpoint has no socket for it",
}

func TestHubSessionsKeepContract(t *testing.T) {
	for _, c := range contract {
		if notThroughHub[c.name] == "" {
			t.Run(c.name, throughHub(c.run))
		}
	}
}

func TestQuietSessionThroughHubStaysAlive(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.pair(t)
		received := [2]uint64{}
		for range 3 * defaultIdleTimeout / 2 / (2 * overtls.PingPeriod) {
			time.Sleep(2 * overtls.PingPeriod)
			now := [2]uint64{robot.ReceivedPackets(), pc.ReceivedPackets()}
			if now[0] == received[0] || now[1] == received[1] {
				t.Fatalf("heard: got %v records, and %v before", now, received)
			}
			received = now
		}
		for _, s := range []*session.Session{robot, pc} {
			if s.Err() != nil || s.RTT() != 2*oneWay {
				t.Errorf("quiet session: err %v, round trip %v, want %v", s.Err(), s.RTT(), 2*oneWay)
			}
		}
	})(t)
}

// Control messages each second make pings unnecessary.
func TestBusySessionThroughHubPingsRarely(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.pair(t)
		go io.Copy(io.Discard, pc.Control())
		go io.Copy(io.Discard, robot.Control())
		const messages = 60
		for range messages {
			time.Sleep(overtls.PingPeriod - time.Millisecond)
			for _, s := range []*session.Session{robot, pc} {
				if _, err := s.Control().Write([]byte("stamp")); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(oneWay)
		if got, most := robot.ReceivedPackets(), uint64(messages+2*(messages/overtls.RTTEvery+2)); got < messages || got > most {
			t.Errorf("records: got %d, want %d messages and at most %d pings and answers", got, messages, most-messages)
		}
	})(t)
}

func TestSessionThroughHubCarriesOnlyControl(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		_, pc := l.pair(t)
		if err := pc.SendDatagram([]byte("x")); !errors.Is(err, overtls.ErrNoDatagrams) {
			t.Errorf("send: got %v, want errNoDatagrams", err)
		}
		if _, err := pc.OpenStream(); !errors.Is(err, overtls.ErrNoStreams) {
			t.Errorf("open stream: got %v, want errNoStreams", err)
		}
		if pc.MaxDatagram() != 0 || pc.Window() != 0 {
			t.Errorf("room: got datagrams of %d, window %d, want none", pc.MaxDatagram(), pc.Window())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := pc.ReceiveDatagram(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("receive: got %v, want to wait", err)
		}
		if _, err := pc.AcceptStream(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("accept stream: got %v, want to wait", err)
		}
	})(t)
}

// Neither end reads. Blocked writes of both ends must not block the goodbye forever.
func TestUnreadSessionThroughHubEnds(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.pair(t)
		written := make(chan error, 2)
		for _, s := range []*session.Session{robot, pc} {
			go func() {
				_, err := s.Control().Write(make([]byte, 1<<20))
				written <- err
			}()
		}
		time.Sleep(time.Hour)
		if robot.Err() != nil || pc.Err() != nil {
			t.Fatalf("before: got %v and %v, want both alive", robot.Err(), pc.Err())
		}
		start := time.Now()
		go robot.Close("enough")
		synctest.Wait()
		if _, err := robot.Control().Read(make([]byte, 1)); err == nil || time.Since(start) > 0 {
			t.Errorf("read of what closes: got %v after %v, want an error at once", err, time.Since(start))
		}
		waitDone(t, pc)
		if took := time.Since(start); took > 2*session.CloseTimeout+oneWay {
			t.Errorf("ended after %v, want %v", took, 2*session.CloseTimeout)
		}
		for range 2 {
			if err := <-written; err == nil {
				t.Error("write: no error")
			}
		}
	})(t)
}

// A host that connects and sends nothing is dropped after HandshakeTimeout.
func TestIdleHubHandshakesAreDropped(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		start := time.Now()
		here, there := newFlow(l.air, hostAddr("idler"), robot.localAddr())
		robot.AcceptOver(there)
		if _, err := here.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("idler: got %v, want to be dropped", err)
		}
		if took := time.Since(start); took > session.HandshakeTimeout+2*oneWay {
			t.Errorf("dropped after %v, want %v", took, session.HandshakeTimeout)
		}
		nobodyArrives(t, robot)
	})(t)
}

// hostAddr is the address of a host behind a hub.
type hostAddr string

func (hostAddr) Network() string  { return "hub" }
func (a hostAddr) String() string { return string(a) }

// A host that opens too many handshakes loses only its own.
func TestHandshakeLimitAppliesPerHubHost(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.node(t, "robot"), l.node(t, "pc")
		idle := func(host string) net.Conn {
			here, there := newFlow(l.air, hostAddr(host), robot.localAddr())
			robot.AcceptOver(there)
			return here
		}
		slow := idle("slow")
		var connections []net.Conn
		for range 3 * maxGreetings {
			connections = append(connections, idle("crowd"))
		}
		time.Sleep(2 * oneWay)
		dropped := 0
		for _, c := range append(connections, slow) {
			c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); err == io.EOF {
				dropped++
				if c == slow {
					t.Error("another host's handshake was dropped")
				}
			}
		}
		if want := 2*maxGreetings + 1; dropped != want {
			t.Errorf("dropped: got %d, want %d", dropped, want)
		}
		l.join(t, robot, pc)
	})(t)
}

// meddler is a stream of which a malicious hub changes the data.
type meddler struct {
	net.Conn
	change func([]byte)
}

func (m *meddler) Write(b []byte) (int, error) {
	b = append([]byte(nil), b...)
	m.change(b)
	return m.Conn.Write(b)
}

// If the hub changes any byte of the dialler, no session is established.
func TestHandshakeChangedByHubFails(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.node(t, "robot"), l.node(t, "pc")
		for n := 0; n < 4000; n += 97 {
			at, passed := n, 0
			here, there := newFlow(l.air, pc.localAddr(), robot.localAddr())
			robot.AcceptOver(there)
			m := &meddler{here, func(b []byte) {
				if at >= passed && at < passed+len(b) {
					b[at-passed] ^= 0x10
				}
				passed += len(b)
			}}
			s, err := pc.DialOver(t.Context(), m)
			var alive bool
			if err == nil {
				time.Sleep(overtls.PingPeriod)
				alive = s.Err() == nil
				s.Close("") // so that the session writes no more data
			}
			if alive && passed > at {
				t.Errorf("byte %d of %d changed: a session", at, passed)
			}
		}
	})(t)
}

// A stream that ends without a goodbye is a cut, not a close by the peer.
func TestCutStreamIsNoBye(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot, pc := l.node(t, "robot"), l.node(t, "pc")
		here, there := newFlow(l.air, pc.localAddr(), robot.localAddr())
		robot.AcceptOver(there)
		s, err := pc.DialOver(t.Context(), here)
		if err != nil {
			t.Fatal(err)
		}
		there.Close()
		if err := waitDone(t, s); !errors.Is(err, overtls.ErrCut) {
			t.Errorf("err: got %v, want errCut", err)
		}
	})(t)
}

func TestClosedEndpointAcceptsNoStreams(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		robot.Close()
		here, there := newFlow(l.air, robot.localAddr(), robot.localAddr())
		if _, err := robot.DialOver(t.Context(), here); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial: got %v, want net.ErrClosed", err)
		}
		robot.AcceptOver(there)
		if _, err := there.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("stream: got %v, want net.ErrClosed: the endpoint owns it", err)
		}
	})(t)
}

// The dialler's name is not shown to an acceptor of another network.
func TestUnknownPeerBehindHubGetsNoName(t *testing.T) {
	throughHub(func(t *testing.T, l *lab) {
		spy := l.start(t, Config{Key: l.keys[1], Node: nodeOf("spy"), Host: "spy"})
		if _, err := l.node(t, "pc").Dial(t.Context(), spy.LocalAddrs()); !errors.Is(err, trust.ErrWrongKey) {
			t.Fatalf("dial: got %v, want ErrWrongKey", err)
		}
		await.True(t, "logged", func() bool { return len(l.logs[spy].lines(trust.ErrWrongKey.Error())) == 1 })
		for _, line := range l.logs[spy].lines("") {
			if strings.Contains(line, "host=pc") {
				t.Errorf("log: got %q, want no name", line)
			}
		}
	})(t)
}
