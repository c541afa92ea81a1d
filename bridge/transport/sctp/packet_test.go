package sctp

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

func TestShimLayoutMatchesDocs(t *testing.T) {
	sh := shim{kind: kindToListener, attempt: attemptID{1, 2, 3, 4, 5, 6, 7, 8}, proof: proof{0: 0xaa, 15: 0xbb}}
	got := hex.EncodeToString(appendShim(nil, sh))
	want := "ac03" + "0102030405060708" + "aa0000000000000000000000000000bb"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := hex.EncodeToString(appendWord(nil, word{wordCredit, 256, 0x01020304})); got != "02010001020304" {
		t.Errorf("word: got %s", got)
	}
}

func TestCookieIsBoundToAddressAndExpires(t *testing.T) {
	jar, now := newCookieJar(), time.Unix(1_000_000, 0)
	here, there := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2}
	cookie := jar.cookie(here, attemptID{1}, now)
	for _, c := range []struct {
		name    string
		addr    net.Addr
		attempt attemptID
		after   time.Duration
		want    bool
	}{
		{"at once", here, attemptID{1}, 0, true},
		{"a little later", here, attemptID{1}, cookieLife, true},
		{"too late", here, attemptID{1}, 2 * cookieLife, false},
		{"from elsewhere", there, attemptID{1}, 0, false},
		{"for another attempt", here, attemptID{2}, 0, false},
	} {
		if got := jar.valid(cookie, c.addr, c.attempt, now.Add(c.after)); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
	if newCookieJar().valid(cookie, here, attemptID{1}, now) {
		t.Error("cookie of another jar: got valid")
	}
}

// deafConn is a socket on which nothing arrives.
type deafConn struct {
	net.PacketConn
	addr net.Addr
}

func (c deafConn) LocalAddr() net.Addr { return c.addr }

// FuzzPacketsOfUnknownPeer tests the only function that processes packets of unknown peers. A
// packet without a cookie must not create a path, and no answer may be longer than its request.
func FuzzPacketsOfUnknownPeer(f *testing.F) {
	from := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 999}
	for kind := byte(kindInitial); kind <= kindReset; kind++ {
		f.Add(append(appendShim(nil, shim{kind: kind, attempt: attemptID{1}}), 22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1))
	}
	f.Add(append([]byte{recordCID, 254, 253}, make([]byte, 60)...))
	f.Add(append([]byte{recordCID, 254, 253}, make([]byte, cidOffset+cidSize-3)...))
	f.Add([]byte{shimMagic})
	f.Add(append(record(recordCID, 1, make([]byte, cidSize), make([]byte, 30)), record(23, 0, nil, []byte("x"))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSocket(deafConn{addr: from}, statelessReset{[]byte("secret")}, nil)
		s.admit = func(*path, net.Addr) bool {
			t.Error("got a path without a cookie, want none")
			return false
		}
		s.sort(b, from)
		if len(s.byAttempt)+len(s.byID)+len(s.byToken)+len(s.parted) != 0 {
			t.Error("got state for an unknown peer, want none")
		}
		select {
		case answer := <-s.out:
			if len(answer.b) > len(b) {
				t.Errorf("%d bytes answered by %d", len(b), len(answer.b))
			}
		default:
		}
		if sh, rest, ok := parseShim(b); ok && string(append(appendShim(nil, sh), rest...)) != string(b) {
			t.Errorf("%x: parsed and appended differs", b)
		}
		findCID(b)
		plainAlert(b)
		if _, ok := parseCID(b); sealed(b) && len(b) > 0 && !ok {
			t.Errorf("%x: sealed, and without a connection id", b)
		}
	})
}

// FuzzPacketsOfMember tests the chunk parsers that inspect packets before the SCTP library does.
func FuzzPacketsOfMember(f *testing.F) {
	head := make([]byte, commonHeader)
	f.Add(append(head, chunkAbort, 0, 0, 12, 0, causeUser, 0, 8, 'b', 'y', 'e', '!'))
	f.Add(append(head, chunkHeartbeatAck, 0, 0, 16, 0, 1, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(append(head, chunkData, 3, 0, 17, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0xac, 1, 'x', 0, 0, 0))
	f.Add(append(head, chunkAbort, 0, 0, 4, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &link{}
		l.changed.L = &l.mu
		l.streams.init(l)
		for typ, chunk := range chunks(b) {
			switch typ {
			case chunkAbort:
				if reason := abortReason(chunk); reason != session.Plain(reason) {
					t.Errorf("reason %q is not plain", reason)
				}
			case chunkHeartbeatAck:
				l.beaten(chunk, time.Now())
			case chunkData:
				l.sent(chunk)
				l.backlog.admit(chunk)
				l.arrived(chunk)
			case chunkSack:
				l.acknowledged(chunk, time.Now())
				l.backlog.acknowledge(chunk)
			}
		}
		isForward(b)
		isSack(b)
	})
}

// FuzzHelloOfMember passes the INIT chunk of a hello and the following packet to an association of the SCTP library.
func FuzzHelloOfMember(f *testing.F) {
	conn, _ := net.Pipe()
	own, err := sctp.GenerateOutOfBandToken(associationOptions(conn, wideMTU)...)
	if err != nil {
		f.Fatal(err)
	}
	head := append([]byte{firstByte, 0x88, firstByte, 0x88}, own[4:8]...)
	head = append(head, 0, 0, 0, 0)
	f.Add(own, append(head, chunkData, 3, 0, 17, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0xac, 1, 'x', 0, 0, 0))
	f.Add(own[:20], head)
	f.Add([]byte{1, 0, 0, 4}, []byte{})
	f.Add([]byte{}, []byte{session.WelcomeByte})
	f.Fuzz(func(t *testing.T, remote, packet []byte) {
		h, ok := parseHello(append([]byte{session.WelcomeByte}, remote...))
		if ok {
			again, valid := parseHello(appendHello(nil, h))
			if !valid || string(again.init) != string(h.init) || again.reset != h.reset || again.mtu != h.mtu {
				t.Errorf("hello: got %v, %t, want %v", again, valid, h)
			}
		}
		ours, theirs := net.Pipe()
		defer theirs.Close()
		assoc, err := sctp.ClientContext(context.Background(), append(associationOptions(ours, wideMTU), sctp.WithSNAP(own, remote))...)
		if err != nil {
			ours.Close()
			return
		}
		go io.Copy(io.Discard, theirs)
		theirs.SetWriteDeadline(time.Now().Add(time.Second))
		theirs.Write(packet)
		assoc.Close()
	})
}

// FuzzStreamMessages passes a member's messages on streams and about streams to a link. Each message is encoded as its
// length, the stream, the format, and its bytes.
func FuzzStreamMessages(f *testing.F) {
	message := func(stream, format byte, b ...byte) []byte { return append([]byte{byte(len(b)), stream, format}, b...) }
	f.Add(append(message(0, 3, 'x'), message(0, 4, 0)...))
	f.Add(append(message(255, 0, appendWord(nil, word{wordOpen, 1, 0})...), message(1, 5, 0)...))
	f.Add(message(255, 0, appendWord(nil, word{wordCredit, 0, 1 << 31})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &link{stopping: make(chan struct{})}
		l.changed.L = &l.mu
		l.streams.init(l)
		l.streams.words = &sctp.Stream{}
		for len(b) >= 3 {
			n := min(int(b[0]), len(b)-3)
			body := b[3:][:n]
			if w, ok := parseWord(body); b[1] == 255 {
				// Without an association, the only messages with an effect are those that open a stream.
				if ok && w.kind == wordOpen {
					l.streams.received(w)
				}
			} else {
				l.streams.take(&l.streams.tracks[b[1]], body, sctp.PayloadProtocolIdentifier(0xac00+int(b[2])))
			}
			b = b[3+n:]
		}
		if l.streams.unread < 0 || len(l.streams.arrivals) > session.MaxStreams {
			t.Errorf("unread: got %d bytes, and %d arrivals", l.streams.unread, len(l.streams.arrivals))
		}
	})
}

func TestStreamWindowHalvesOnLossAndGrows(t *testing.T) {
	f, now, rtt := newCongestionWindow(), time.Unix(0, 0), 20*time.Millisecond
	f.acked(5 * maxPayload)
	if want := 15 * maxPayload; f.limit != want {
		t.Errorf("slow start: got %d, want %d", f.limit, want)
	}
	now = now.Add(time.Hour)
	f.lost(now, rtt)
	f.lost(now.Add(rtt/2), rtt) // another loss in the same round trip
	half := 15 * maxPayload / 2
	if f.limit != half {
		t.Errorf("after loss: got %d, want %d", f.limit, half)
	}
	f.acked(f.limit)
	if want := half + maxPayload; f.limit != want {
		t.Errorf("a window later: got %d, want %d", f.limit, want)
	}
	for i := range 100 {
		f.lost(now.Add(time.Duration(i)*time.Hour), rtt)
	}
	if f.limit != minCwnd {
		t.Errorf("after much loss: got %d, want %d", f.limit, minCwnd)
	}
	for range 1000 {
		f.acked(maxCwnd)
	}
	if f.limit != maxCwnd {
		t.Errorf("without loss: got %d, want %d", f.limit, maxCwnd)
	}
}
