package testnet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// short.up has chances at 0, 10, 10 and 40 ms, and then repeats.
func TestTraceSendsPacketAtEachChance(t *testing.T) {
	l := NewLink[int](1, params(t, "trace=testdata/short.up,delay=1ms"))
	for i := range 6 {
		l.Send(0, 1500, i)
	}
	at, order := arrivalTimes(l)
	if want := []time.Duration{1 * ms, 11 * ms, 11 * ms, 41 * ms, 41 * ms, 51 * ms}; !slices.Equal(at, want) || !slices.IsSorted(order) {
		t.Errorf("got %v, packets %v, want %v in order", at, order, want)
	}
}

func TestUnusedChanceIsLost(t *testing.T) {
	l := NewLink[int](1, params(t, "trace=testdata/short.up"))
	for i, want := range []time.Duration{10 * ms, 40 * ms, 90 * ms} {
		now := []time.Duration{1 * ms, 11 * ms, 81 * ms}[i]
		if got := l.Free(now); got != want {
			t.Errorf("at %v: got a free transmitter at %v, want %v", now, got, want)
		}
		if got := l.Send(now, 1000, i).Departs; got != want {
			t.Errorf("sent at %v: got %v, want the next chance, %v", now, got, want)
		}
	}
}

func TestTracePacketsSpanAndShareChances(t *testing.T) {
	l := NewLink[int](1, params(t, "trace=testdata/short.up"))
	var got []time.Duration
	for i, size := range []int{900, 600, 900, 900, 1201} {
		got = append(got, l.Send(5*ms, size, i).Departs)
	}
	// The first chance sends 900 and 600 bytes, the second 900 and 600 of the next 900, whose
	// last 300 use the third chance. The fourth chance is not enough for the last packet, but
	// the next repetition begins at the same time.
	if want := []time.Duration{10 * ms, 10 * ms, 10 * ms, 40 * ms, 40 * ms}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTraceStartsAtGivenOffset(t *testing.T) {
	l := NewLink[int](1, params(t, "trace=testdata/short.up,from=85ms"))
	if got := l.Send(0, 1500, 0).Departs; got != 5*ms {
		t.Errorf("got %v, want 5ms: 90ms of the trace", got)
	}
}

func TestTraceRepeats(t *testing.T) {
	l := NewLink[int](1, params(t, "trace=testdata/short.up"))
	for i := range 4000 {
		l.Send(0, 1500, i)
	}
	at, order := arrivalTimes(l)
	if last := at[len(at)-1]; last != 1000*40*ms || len(at) != 4000 || !slices.IsSorted(order) {
		t.Errorf("got %d packets until %v, want 4000 in order until 40s", len(at), last)
	}
	if c := l.Counts(); c.Delivered != c.Sent {
		t.Errorf("got %+v, want all delivered", c)
	}
}

func TestParamsBackUsesReverseTrace(t *testing.T) {
	p := params(t, "trace=testdata/short.up,from=10ms,delay=2ms")
	if got, want := p.Back().String(), "delay=2ms,trace=testdata/short.down,from=10ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.Back().Back(); got != p {
		t.Errorf("got %v there and back, want %v", got, p)
	}
	single, err := ParseTrace("single", []byte("1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (Params{Trace: single, From: ms, Queue: 1}).Back(), (Params{Queue: 1}); got != want {
		t.Errorf("without a twin: got %v, want %v", got, want)
	}
	if got := params(t, "rate=1mbit").Back().String(); got != "rate=1mbit" {
		t.Errorf("without a trace: got %q, want the same", got)
	}
}

func TestTraceForAllHostsUsesReverseTrace(t *testing.T) {
	m := NewMesh[int](1)
	m.AddHost("robot", Params{})
	m.AddHost("pc", Params{})
	if err := m.Change(0, "", "trace=testdata/short.up"); err != nil {
		t.Fatal(err)
	}
	if err := m.Change(0, "", "delay=1ms"); err != nil {
		t.Fatal(err)
	}
	got := []string{m.Settings()[0].Params.String(), m.Settings()[1].Params.String()}
	if want := []string{"delay=1ms,trace=testdata/short.up", "delay=1ms,trace=testdata/short.down"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadTraceErrorSuggestsFix(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"t", "", "t: covers no time"},
		{"t", "0\n0\n", "t: covers no time"},
		{"t", "5\n3\n", "t, line 2: 3 ms is less than the line before; sort the lines"},
		{"t", "5\n\n6\n", `t, line 2: "" is not a time`},
		{"t", "-5\n", `t, line 1: "-5" is not a time`},
		{"t", strings.Repeat("9", 100), "t, line 1: "},
		{"t", strings.Repeat("9", 100000), "t, line 1: "},
		{"a,b", "1\n", "a,b: the file's name has a comma"},
	} {
		if _, err := ParseTrace(c.name, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte("0\n10\n10\n40\n"), 5)
	f.Fuzz(func(t *testing.T, text []byte, from int) {
		tr, err := ParseTrace("t", text)
		if err != nil || from < 0 {
			return
		}
		now := time.Duration(from)
		c := tr.from(now)
		if at := c.send(tr, now, 4000); at < now || tr.time(tr.first(at)) != at {
			t.Errorf("got a packet of %v gone at %v, want later, at a chance", now, at)
		}
	})
}
