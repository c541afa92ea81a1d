package snapshots

import "time"

// Trigger decides when one condition or one kind of event begins a snapshot. The zero Trigger has no hold.
type Trigger struct {
	Hold time.Duration // time after a snapshot was begun in which the trigger is ignored

	level    level
	hasFired bool
	firedAt  int64
}

// level is the last known value of a condition.
type level int

const (
	unknown level = iota // no value yet: a condition that holds from the beginning is no rising edge
	low
	high
)

// Event reports whether an event at a log time triggers.
func (t *Trigger) Event(at int64) bool {
	if t.hasFired && at-t.firedAt < int64(t.Hold) {
		return false
	}
	t.hasFired, t.firedAt = true, at
	return true
}

// Condition reports whether a value at a log time triggers: on the rising edge, when the condition begins to hold.
func (t *Trigger) Condition(holds bool, at int64) bool {
	before := t.level
	t.level = low
	if holds {
		t.level = high
	}
	return holds && before == low && t.Event(at)
}
