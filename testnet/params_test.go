package testnet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParamsRoundTrip(t *testing.T) {
	for text, want := range map[string]string{
		"up":                         "up",
		"cut":                        "cut",
		"DELAY=10ms,Rate=1MBit":      "delay=10ms,rate=1mbit",
		"rate=1.5mbit, queue=64KIB":  "rate=1.5mbit,queue=64KiB",
		"rate=1500kbit/s":            "rate=1.5mbit",
		"queue=1500,mtu=1280":        "queue=1500B,mtu=1280",
		"loss=0.5%,burst=3,dup=1%":   "loss=0.5%,burst=3,dup=1%",
		"reorder=1%,jitter=2ms,cut":  "jitter=2ms,reorder=1%,cut",
		"rate=none,queue=0,loss=0":   "up",
		"rate=1gbit,delay=500us":     "delay=500µs,rate=1gbit",
		"delay=10ms,loss=33.333333%": "delay=10ms,loss=33.333333%",
		"rate=10mbit,STALL=5ms/25ms": "rate=10mbit,stall=5ms/25ms",
		"fade=20s/10s/12kbit":        "fade=20s/10s/12kbit",
		"stall=none,fade=0,trace=none,wifi=none,air=none": "up",
		"WIFI=Busy,air=Hall":                              "wifi=busy,air=Hall",
		"trace=testdata/short.up,from=1500ms,queue=1MiB":  "trace=testdata/short.up,from=1.5s,queue=1MiB",
	} {
		p, err := ParseParams(text)
		if err != nil || p.String() != want {
			t.Errorf("%q: got %q, %v, want %q", text, p, err, want)
			continue
		}
		again, err := ParseParams(p.String())
		if p.Trace != nil && again.Trace != nil && slices.Equal(again.Trace.at, p.Trace.at) {
			again.Trace = p.Trace // read twice
		}
		if err != nil || again != p {
			t.Errorf("%q: got %+v, %v back, want %+v", text, again, err, p)
		}
	}
}

func TestParamsWithKeepsOtherParameters(t *testing.T) {
	p, err := Params{Delay: 5 * time.Millisecond, Rate: 1e6, Cut: true}.With("up,loss=5%")
	if want := (Params{Delay: 5 * time.Millisecond, Rate: 1e6, Loss: 0.05}); err != nil || p != want {
		t.Errorf("got %+v, %v, want %+v", p, err, want)
	}
}

func TestParseParamsReportsAllProblems(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   {"an empty part", "delay, jitter"},
		"dleay=10ms":                         {"dleay: no such key; right are delay"},
		"delay":                              {"delay: has no value; right is delay=10ms"},
		"delay=":                             {"delay: has no value"},
		"delay=10":                           {`delay: "10" is not a time; right is`, "10ms"},
		"delay=-1ms":                         {`"-1ms" is not a time`},
		"rate=1mb":                           {`rate: "1mb" is not a rate`, "mbit"},
		"rate=-1mbit":                        {"is not a rate"},
		"rate=1e6bit":                        {"is not a rate"},
		"queue=64kb":                         {`queue: "64kb" is not a size`, "KiB"},
		"loss=5":                             {`loss: "5" is not a share; right is 0% to 100%`},
		"loss=101%":                          {"is not a share"},
		"loss=nan%":                          {"is not a share"},
		"burst=0.5,loss=1%":                  {`burst: "0.5" is not a mean number`},
		"loss=90%,burst=2":                   {"burst: 2 packets in a row cannot make a loss of 90%, at most 66.6666666667%"},
		"cut=1":                              {"cut: takes no value"},
		"cut,up":                             {"up: given twice"},
		"loss=1%,loss=2%":                    {"loss: given twice"},
		"rate=fast,queue=big,loss=often":     {`rate: "fast"`, `queue: "big"`, `loss: "often"`},
		"stall=5ms":                          {`stall: "5ms" is not PART/PERIOD; right is such as 5ms/25ms`},
		"stall=25ms/25ms":                    {"stall: 25ms/25ms does not leave at least 1ms"},
		"fade=20s/10s":                       {`fade: "20s/10s" is not PERIOD/PART/RATE; right is such as 20s/10s/12kbit`},
		"fade=10s/20s/1mbit":                 {"fade: 10s/20s/1mbit is no part and rate"},
		"wifi=fast":                          {`wifi: "fast" is no model; right are busy, edge,`, "good"},
		"wifi=good,rate=1mbit":               {"wifi: decides itself when packets leave", "rate=none"},
		"air=hall":                           {"air: hall, but only links with wifi share air", "air=none"},
		"from=10s":                           {"from: 10s, but there is no trace", "trace=FILE"},
		"trace=testdata/none":                {"trace: stat testdata/none: no such file", "a time in ms on each line"},
		"trace=testdata":                     {"trace: testdata: is no file"},
		"trace=a,b":                          {"b: no such key", "cannot have a comma, so rename the file"},
		"trace=testdata/bad":                 {`trace: testdata/bad, line 2: "12.5" is not a time`},
		"trace=testdata/short.up,rate=1mbit": {"trace: decides itself when packets leave", "rate=none"},
		"trace=testdata/short.up,wifi=good":  {"trace: goes not with wifi"},
	} {
		_, err := ParseParams(text)
		if err == nil {
			t.Errorf("%q: got no error", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got %q, want it to say %q", text, err, part)
			}
		}
	}
}

func FuzzParams(f *testing.F) {
	f.Add("delay=10ms,rate=1.5mbit,queue=64KiB,loss=1%,burst=3,jitter=2ms,dup=1%,reorder=1%,mtu=1280,cut")
	f.Add("rate=999999999999bit,loss=0.0001%")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseParams(text)
		if err != nil {
			return
		}
		again, err := ParseParams(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q printed %q, which reads as %q, %v", text, p, again, err)
		}
		l := NewLink[int](1, p)
		l.Send(0, 1500, 0)
		l.Set(1, p)
		for at, ok := l.Next(); ok; at, ok = l.Next() {
			if at < 0 {
				t.Fatalf("%q: arrives at %v", text, at)
			}
			l.Receive(at)
		}
	})
}
