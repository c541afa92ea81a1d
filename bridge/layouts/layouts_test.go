package layouts

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/wire"
)

func TestEncodedLayoutFitsItsMessage(t *testing.T) {
	if layout.MaxText != wire.MaxLayout {
		t.Errorf("a layout has %d bytes at most, and its message takes %d", layout.MaxText, wire.MaxLayout)
	}
}

func TestCacheDropsLeastRecentlyUsed(t *testing.T) {
	var c Cache
	for i := range 1000 {
		c.add(cachedLayout{hash: wire.Hash{byte(i), byte(i >> 8)}, encoded: []byte{1}})
	}
	if c.Len() != maxCached {
		t.Errorf("Len() = %d, want %d", c.Len(), maxCached)
	}
	oldest := c.list[0].hash
	if c.Encoded(oldest) == nil || c.Encoded(wire.Hash{}) != nil {
		t.Error("Packed does not return what is in the cache")
	}
	c.add(cachedLayout{hash: wire.Hash{99, 99}, encoded: []byte{1}})
	if c.Encoded(oldest) == nil {
		t.Error("the layout that was used last is gone")
	}
}

// peer records the channels that Requests ask for.
type peer struct{ requests []string }

func (p *peer) ask(channel string) (id uint32) {
	p.requests = append(p.requests, channel)
	return uint32(len(p.requests))
}

func TestRequestsAreLimitedAndPaced(t *testing.T) {
	var p peer
	r := NewRequests(new(Cache), p.ask)
	now := time.Unix(0, 0)
	const all = MaxUnanswered + maxQueued
	for i := range all {
		if r.Add(now, wire.Hash{byte(i), byte(i >> 8), 1}, fmt.Sprint("c", i)) == nil {
			t.Fatalf("request %d of %d is refused", i+1, all)
		}
	}
	if r.Add(now, wire.Hash{2}, "late") != nil {
		t.Errorf("request %d is queued, want it refused", all+1)
	}
	if r.Add(now, wire.Hash{0, 0, 1}, "c0") == nil {
		t.Error("a request for a layout that is requested already is refused")
	}
	if len(p.requests) != MaxUnanswered {
		t.Errorf("got %d requests to the peer at once, want %d", len(p.requests), MaxUnanswered)
	}
	for answered := 0; answered < 200; answered++ {
		r.Refuse(now, wire.Refused{ID: uint32(answered + 1), Text: "no"})
		if len(p.requests) == answered+1 { // the limiter holds the next one back
			now = now.Add(50 * time.Millisecond)
			r.Send(now)
		}
	}
	if took := now.Sub(time.Unix(0, 0)); took < 6*time.Second {
		t.Errorf("got 200 requests within %v, want 20 a second after the first 64", took)
	}
}

func TestRequestOutcomes(t *testing.T) {
	good, err := (&layout.Layout{Name: "imu", Size: 8, Fields: []layout.Field{{Name: "x", Type: layout.Bytes, Size: 8}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	for _, c := range []struct {
		name, why string
		end       func(*Requests)
	}{
		{"answered", "", func(r *Requests) { r.Receive(now, wire.Layout{ID: 1, Encoded: good}) }},
		{"wrong hash", "its layout is not the one of its catalog: the hash differs", func(r *Requests) { r.Receive(now, wire.Layout{ID: 1, Encoded: []byte{1}}) }},
		{"refused", "no", func(r *Requests) { r.Refuse(now, wire.Refused{ID: 1, Text: "no"}) }},
		{"unanswered", "it does not answer", func(r *Requests) { r.Send(now.Add(answerTimeout)) }},
		{"closed", "the link to it has ended", (*Requests).Close},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p peer
			cache := new(Cache)
			r := NewRequests(cache, p.ask)
			q := r.Add(now, layout.Hash(good), "imu")
			calls := 0
			q.Then(func(Answer) { calls++ })
			c.end(r)
			select {
			case <-q.Done():
			default:
				t.Fatal("the request has not ended")
			}
			a := q.Answer()
			if a.Why != c.why || (a.Encoded != nil) != (c.why == "") || cache.Len() != len(a.Encoded)/max(1, len(a.Encoded)) || calls != 1 {
				t.Errorf("got %+v, %d in the cache, %d calls; want why %q, one call", a, cache.Len(), calls, c.why)
			}
			if got := r.Rejected(layout.Hash(good)); (got != "") != (c.name == "wrong hash") {
				t.Errorf("Rejected = %q", got)
			}
		})
	}
}

func TestRepliesToPeerAreLimited(t *testing.T) {
	a, now := NewAnswerLimit(), time.Unix(0, 0)
	sent := 0
	for ; a.Allows(now); sent++ {
		a.Sent(now, wire.MaxLayout)
	}
	if sent < 10 || sent > 16 {
		t.Errorf("the peer gets %d layouts of 64 KiB at once, want 1 MiB", sent)
	}
	now = now.Add(time.Minute)
	end := func() {}
	for range MaxUnanswered {
		end = a.Wait()
	}
	if a.Allows(now) {
		t.Errorf("%d requests wait for another host, and one more is allowed", MaxUnanswered)
	}
	if end(); !a.Allows(now) {
		t.Error("no request is allowed after the end of one")
	}
}

func TestMismatchChecksTailLength(t *testing.T) {
	kind := layout.Layout{Name: "scan", Size: 4, Fields: []layout.Field{
		{Name: "n", Type: layout.Uint32}, {Name: "x", Type: layout.Uint32, Offset: 4},
	}, Tail: "x", Counter: "n"}
	fit := kind.Fit()
	scan := func(n, numbers int) []byte { // declares that n numbers follow
		frame := make([]byte, 4+4*numbers)
		binary.LittleEndian.PutUint32(frame, uint32(n))
		return frame
	}
	for _, c := range []struct {
		frame []byte
		want  string
	}{
		{scan(0, 0), ""},
		{scan(3, 3), ""},
		{scan(4, 3), "16 bytes do not fit scan, whose n is 4"},
		{scan(2, 3), "16 bytes do not fit scan, whose n is 2"},
		{scan(16, 16), ""},
		{scan(1, 1)[:3], "3 bytes do not fit scan, whose x begins at 4"},
		{scan(1, 1<<15), ""}, // too large to be copied
	} {
		newest := func(buf []byte) (int, error) {
			if len(buf) < len(c.frame) {
				return len(c.frame), io.ErrShortBuffer
			}
			return copy(buf, c.frame), nil
		}
		got := ""
		if m := (SizeCheck{Fit: &fit, From: status.TypeFromFile, Newest: newest}).Mismatch(); m != nil {
			got = m.Why
		}
		if got != c.want {
			t.Errorf("%d bytes that say %d: got %q, want %q", len(c.frame), c.frame[0], got, c.want)
		}
	}
}
