package transport

import (
	"encoding/hex"
	"net"
	"testing"
	"time"
)

func TestShimIsLaidOutAsDocumented(t *testing.T) {
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

func TestCookieProvesOneAddressForAWhile(t *testing.T) {
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

// FuzzPacketsFromAnybody feeds the one function that sees what strangers send. No
// packet without a cookie makes a path, and no answer is longer than what it answers.
func FuzzPacketsFromAnybody(f *testing.F) {
	from := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 999}
	for kind := byte(kindKnock); kind <= kindReset; kind++ {
		f.Add(append(appendShim(nil, shim{kind: kind, attempt: attemptID{1}}), 22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1))
	}
	f.Add(append([]byte{recordCID, 254, 253}, make([]byte, 60)...))
	f.Add([]byte{shimMagic})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSCTPSocket(deafConn{addr: from}, nodeOf("robot"), resetter{[]byte("secret")})
		s.admit = func(*sctpPath, net.Addr) bool {
			t.Error("a path without a cookie")
			return false
		}
		s.sort(b, from)
		if len(s.byAttempt)+len(s.byID)+len(s.byToken)+len(s.parted) != 0 {
			t.Error("state for a stranger")
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
	})
}

// FuzzPacketsOfAMember feeds what reads along under SCTP.
func FuzzPacketsOfAMember(f *testing.F) {
	head := make([]byte, sctpHeader)
	f.Add(append(head, chunkAbort, 0, 0, 12, 0, causeUser, 0, 8, 'b', 'y', 'e', '!'))
	f.Add(append(head, chunkHeartbeatAck, 0, 0, 16, 0, 1, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(append(head, chunkData, 3, 0, 17, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0xac, 1, 'x', 0, 0, 0))
	f.Add(append(head, chunkAbort, 0, 0, 4, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &sctpLink{}
		l.changed.L = &l.mu
		l.streams.init(l)
		for typ, chunk := range chunks(b) {
			switch typ {
			case chunkAbort:
				if reason := abortReason(chunk); reason != plain(reason) {
					t.Errorf("reason %q is not plain", reason)
				}
			case chunkHeartbeatAck:
				l.beaten(chunk, time.Now())
			case chunkData:
				l.sent(chunk)
			}
		}
	})
}

func TestStreamFlightHalvesOnLossAndGrowsAgain(t *testing.T) {
	f, now, rtt := newSCTPFlight(), time.Unix(0, 0), 20*time.Millisecond
	f.acked(5*sctpPayload, true)
	if want := 15 * sctpPayload; f.limit != want {
		t.Errorf("slow start: got %d, want %d", f.limit, want)
	}
	f.acked(5*sctpPayload, false)
	if want := 15 * sctpPayload; f.limit != want {
		t.Errorf("not full: got %d, want %d", f.limit, want)
	}
	now = now.Add(time.Hour)
	f.lost(now, rtt)
	f.lost(now.Add(rtt/2), rtt) // of the same round trip
	half := 15 * sctpPayload / 2
	if f.limit != half {
		t.Errorf("after loss: got %d, want %d", f.limit, half)
	}
	f.acked(f.limit, true)
	if want := half + sctpPayload; f.limit != want {
		t.Errorf("a window later: got %d, want %d", f.limit, want)
	}
	for i := range 100 {
		f.lost(now.Add(time.Duration(i)*time.Hour), rtt)
	}
	if f.limit != leastFlight {
		t.Errorf("after much loss: got %d, want %d", f.limit, leastFlight)
	}
	for range 1000 {
		f.acked(mostFlight, true)
	}
	if f.limit != mostFlight {
		t.Errorf("without loss: got %d, want %d", f.limit, mostFlight)
	}
}
