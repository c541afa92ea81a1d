package mirror

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// Each case is a frame that is captured at 0 and arrives at age by our clock, with a budget of 100 ms. The
// peer's clock is known to ± uncertainty.
func TestLatenessRespectsClockUncertainty(t *testing.T) {
	for _, c := range []struct {
		class                rule.Class
		age, uncertainty     time.Duration
		unknown              bool // the peer's clock is unknown
		before               bool // the frame was put before its origin watched the channel
		mustRetransmit, late bool
	}{
		{age: 100 * milli},
		{age: 101 * milli, late: true},
		{age: 110 * milli, uncertainty: 10 * milli}, // it may be in time
		{age: 111 * milli, uncertainty: 10 * milli, late: true},
		{age: 999 * milli, unknown: true},
		{age: 999 * milli, unknown: true, mustRetransmit: true, late: true},
		{age: 999 * milli, before: true},
		{age: 999 * milli, before: true, mustRetransmit: true, late: true},
		{class: rule.Command, age: 90 * milli, uncertainty: 10 * milli},
		{class: rule.Command, age: 91 * milli, uncertainty: 10 * milli, late: true}, // it may be late
		{class: rule.Command, age: milli, unknown: true, late: true},
		{class: rule.Command, age: milli, before: true, late: true},
		{class: rule.Command, age: 101 * milli, mustRetransmit: true, late: true},
	} {
		m := &Mirror{qos: rule.QoS{Class: c.class}}
		const captured = time.Minute
		const offset = 40 * time.Hour // the peer's daemon has run for longer
		a := Arrival{Captured: captured + offset, LastValue: c.mustRetransmit, At: Reading{Now: captured + c.age, Offset: offset, Uncertainty: c.uncertainty, Known: !c.unknown}}
		if c.before {
			a.Captured = 0
		}
		if got := m.late(a); got != c.late {
			t.Errorf("%+v: got late %v", c, got)
		}
		if c.class == rule.Command && c.late && m.lateIsPut(a) {
			t.Errorf("%+v: a late command is put", c)
		}
	}
}
