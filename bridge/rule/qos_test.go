package rule

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"achbridge/wire"
)

var someQoS = []QoS{
	{},
	{Budget: 20 * time.Millisecond, MaxRate: 200_000, Priority: 8},
	{Budget: 123_456_789, MaxRate: 1, Priority: 1, Compress: CompressNone},
	{Budget: 1, MaxRate: math.MaxUint32, Class: Command},
	{Budget: 24 * time.Hour, Mode: Every, Priority: 5, Compress: CompressZstd},
	{Budget: time.Second, Late: LateDrop},
	{Budget: math.MaxInt64},
}

func TestQoSWireRoundTrip(t *testing.T) {
	for _, q := range someQoS {
		b, err := wire.AppendMessage(nil, wire.Update{ID: 1, QoS: q.Wire()})
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		m, err := wire.ParseMessage(b[4:])
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if got, err := QoSFromWire(m.(wire.Update).QoS); err != nil || got != q {
			t.Errorf("got %+v, %v; want %+v", got, err, q)
		}
	}
}

func TestQoSJSONRoundTrip(t *testing.T) {
	for _, q := range someQoS[:len(someQoS)-1] { // JSON numbers hold 53 bits
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		want := q
		want.Budget, want.Priority, want.Late = q.EffectiveBudget(), Priority(q.Priority.Level()+1), q.EffectiveLate()
		var got QoS
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", b, got, err, want)
		}
	}
}

func TestEmptyJSONQoSIsDefault(t *testing.T) {
	got := someQoS[1]
	if err := json.Unmarshal([]byte("{}"), &got); err != nil || got.Wire() != (QoS{Priority: 5}).Wire() {
		t.Errorf("got %+v, %v; want the default", got, err)
	}
}

func TestQoSJSONShowsEffectiveValues(t *testing.T) {
	b, err := json.Marshal(QoS{})
	const want = `{"budget_ms":100,"priority":4,"mode":"newest","compress":"auto","late":"newest","class":"state"}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

func TestQoSOptionsRoundTrip(t *testing.T) {
	for _, q := range someQoS {
		var got QoS
		for _, o := range []struct{ key, text string }{
			{"budget", q.EffectiveBudget().String()}, {"max_rate", q.MaxRate.String()}, {"priority", q.Priority.String()},
			{"mode", q.Mode.String()}, {"compress", q.Compress.String()}, {"late", q.EffectiveLate().String()}, {"class", q.Class.String()},
		} {
			if o.text == "0" && o.key == "max_rate" {
				continue // no limit
			}
			if err := got.Set(o.key, o.text, nil); err != nil {
				t.Errorf("%s %q: %v", o.key, o.text, err)
			}
		}
		want := q
		want.Budget, want.Priority, want.Late = q.EffectiveBudget(), Priority(q.Priority.Level()+1), q.EffectiveLate()
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestBadQoSOptionErrorNamesValidValues(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"budget", "20", "budget \"20\": want a time above zero, as in 100ms or 1s"},
		{"budget", "0s", "want a time above zero"},
		{"budget", "-1ms", "want a time above zero"},
		{"budget", "1e9h", "want a time above zero"},
		{"budget", "", "want a time above zero"},
		{"max_rate", "0", "max_rate \"0\": want frames a second, as in 200 or 0.5"},
		{"max_rate", "-5", "want frames a second"},
		{"max_rate", "NaN", "want frames a second"},
		{"max_rate", "inf", "want frames a second"},
		{"max_rate", "0.0001", "want frames a second"},
		{"max_rate", "1e12", "want frames a second"},
		{"max_rate", "fast", "want frames a second"},
		{"priority", "8", "priority \"8\": want 0 … 7, 7 is the most urgent, 4 the default"},
		{"priority", "-1", "want 0 … 7"},
		{"priority", "high", "want 0 … 7"},
		{"mode", "all", "mode \"all\": want newest or every"},
		{"compress", "gzip", "compress \"gzip\": want auto, none or zstd"},
		{"compress", "s2", "compress \"s2\" is gone: use auto or zstd instead"},
		{"late", "keep", "late \"keep\": want newest or drop"},
		{"late", "deliver", "late \"deliver\" is gone: use a larger budget instead, as in 1h"},
		{"fit", "rate", "fit was removed: "},
		{"class", "", "class \"\": want state or command"},
		{"lifespan", "1s", "option \"lifespan\" is not known; there are preset, budget, max_rate, priority, mode, compress, late, class, deadline, on_stale"},
	} {
		q := QoS{}
		err := q.Set(c.key, c.value, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

func TestBadQoSInJSONIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"budget_ms":-1}`:                    "want a time above zero",
		`{"budget_ms":1e300}`:                 "want a time above zero",
		`{"budget_ms":1e-7}`:                  "want a time above zero",
		`{"max_rate_hz":-1}`:                  "want frames a second",
		`{"max_rate_hz":1e300}`:               "want frames a second",
		`{"priority":9}`:                      "want 0 … 7",
		`{"mode":"all"}`:                      "want newest or every",
		`{"mode":"every","max_rate_hz":1}`:    "combined with max_rate",
		`{"mode":"every","class":"command"}`:  "or class command",
		`{"class":"command","late":"newest"}`: "cannot be combined with late newest",
		`{"fit":"rate"}`:                      "fit was removed: ",
	} {
		var q QoS
		if err := json.Unmarshal([]byte(text), &q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", text, q, err, want)
		}
	}
}

func TestUnknownQoSOfNewerPeerIsRefused(t *testing.T) {
	for want, w := range map[string]wire.QoS{
		"mode 2 is not known here: update the older achbridge":     {Mode: 2},
		"compress 4 is not known here: update the older achbridge": {Compress: 4},
		"compress 2 is not known here: update the older achbridge": {Compress: 2},
		"late 1 is not known here: update the older achbridge":     {Late: 1},
		"class 255 is not known here: update the older achbridge":  {Class: 255},
		"mode every sends all frames":                              {Mode: 1, MaxRate: 1},
		"want a time above zero":                                   {Budget: -1},
		"priority 8: want 0 … 7":                                   {Priority: 9},
		"priority -2: want 0 … 7":                                  {Priority: -1},
		"priority 256: want 0 … 7":                                 {Priority: 257},
	} {
		if q, err := QoSFromWire(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %+v, %v; want an error with %q", w, q, err, want)
		}
	}
}

func TestRateInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{"200": 5 * time.Millisecond, "0.5hz": 2 * time.Second, "0.001": 1000 * time.Second, "1000Hz": time.Millisecond} {
		if r, err := parseRate(text); err != nil || r.Interval() != want {
			t.Errorf("%s: got %v, %v; want %v", text, r.Interval(), err, want)
		}
	}
}

func TestQoSJSONErrorIsDeterministic(t *testing.T) {
	const text = `{"budget_ms":-1,"priority":9,"mode":"all","class":"x","deadline_ms":-1}`
	for range 50 {
		var q QoS
		if err := json.Unmarshal([]byte(text), &q); err == nil || !strings.Contains(err.Error(), "budget") {
			t.Fatalf("got %v, want the budget named, which comes first", err)
		}
	}
}

func TestWireSetsStrictOnlyForStates(t *testing.T) {
	for _, c := range []struct {
		q    QoS
		want wire.QoS
	}{
		{QoS{}, wire.QoS{}},
		{QoS{Late: LateNewest}, wire.QoS{}},
		{QoS{Late: LateDrop}, wire.QoS{Strict: true}},
		{QoS{Class: Command}, wire.QoS{Class: 1}},
		{QoS{Class: Command, Late: LateDrop}, wire.QoS{Class: 1}},
	} {
		if got := c.q.Wire(); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.q, got, c.want)
		}
	}
}

func TestCommandDropsLateFramesByDefault(t *testing.T) {
	q := QoS{Class: Command}
	if q.EffectiveLate() != LateDrop || q.Check() != nil || (QoS{Class: Command, Late: LateDrop}).Check() != nil {
		t.Errorf("got late %v, %v; want drop", q.EffectiveLate(), q.Check())
	}
	if err := (QoS{Class: Command, Late: LateNewest}).Check(); err == nil || !strings.Contains(err.Error(), "late newest") {
		t.Errorf("late newest: got %v, want it refused by name", err)
	}
	for _, c := range []struct {
		from, to QoS
		want     string
	}{
		{QoS{}, QoS{Class: Command, Late: LateDrop}, "class command"}, // as decoded from JSON
		{QoS{}, QoS{Late: LateNewest}, ""},
		{QoS{}, QoS{Late: LateDrop}, "late drop"},
	} {
		if got := Differences(c.from, c.to); got != c.want {
			t.Errorf("from %+v to %+v: got %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// The options of the mirror's host override the request of the push.
func TestAcceptRuleDecidesLateFramePolicyOfPush(t *testing.T) {
	for _, c := range []struct {
		rule      Grant
		requested QoS
		want      Late
		err       string
	}{
		{Grant{}, QoS{}, LateNewest, ""},
		{Grant{}, QoS{Late: LateDrop}, LateDrop, ""},
		{Grant{QoS: QoS{Late: LateDrop}, Says: []string{"late"}}, QoS{}, LateDrop, ""},
		{Grant{QoS: QoS{Late: LateNewest}, Says: []string{"late"}}, QoS{Late: LateDrop}, LateNewest, ""},
		{Grant{QoS: QoS{Late: LateNewest}, Says: []string{"late"}}, QoS{Class: Command}, 0, "late newest"},
		{Grant{QoS: QoS{Class: Command}, Says: []string{"class"}}, QoS{Late: LateDrop}, LateDrop, ""},
		{Grant{}, QoS{Class: Command}, LateDrop, ""},
	} {
		requested, err := QoSFromWire(c.requested.Wire())
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.rule.ForPush(requested)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("rule %+v, request %+v: got %v, want an error with %q", c.rule, c.requested, err, c.err)
			}
		} else if err != nil || got.EffectiveLate() != c.want {
			t.Errorf("rule %+v, request %+v: got late %v, %v; want %v", c.rule, c.requested, got.EffectiveLate(), err, c.want)
		}
	}
}
