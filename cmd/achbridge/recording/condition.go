package recording

import (
	"fmt"
	"slices"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/recording/snapshots"
	"achbridge/cmd/achbridge/values"
)

// condition is a trigger on a field of a channel's frames.
type condition struct {
	config.Condition
	trigger snapshots.Trigger
	problem string // last reason why the condition could not be checked; empty if it could
}

// checkConditions checks the conditions on a frame, and fires those that begin to hold. It is called for each frame, in
// order.
func (f *MemoryRecorder) checkConditions(i item, frame []byte) {
	for n, c := range f.conditions {
		if c.Channel != i.topic.Channel {
			continue
		}
		reason, err := c.check(i, frame)
		if err != nil && err.Error() != c.problem || err == nil && c.problem != "" {
			f.setProblem(n, c, err)
		}
		if reason != "" {
			f.mu.Lock()
			f.fire(i.log, reason)
			f.mu.Unlock()
		}
	}
}

// check returns the reason for a snapshot, empty if there is none. The error is that the frame does not have the field.
func (c *condition) check(i item, frame []byte) (reason string, err error) {
	if i.topic.Type == nil {
		why := "the layout of its frames is not known: add it to types"
		if i.topic.Mismatch {
			why = "its frames do not match their layout"
		}
		return "", fmt.Errorf("%s: %s", c.Channel, why)
	}
	list, err := values.Numbers(i.topic.Type.of, frame, []string{c.Field})
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Channel, err)
	}
	at := slices.IndexFunc(list, func(n values.Number) bool { return c.Holds(n.X) })
	if !c.trigger.Condition(at >= 0, i.log) {
		return "", nil
	}
	return fmt.Sprintf("%s: %s is %.6g, %s", c.Channel, list[at].Path, list[at].X, c.LimitText()), nil
}

// setProblem notes why a condition cannot be checked; a nil err means that it can.
func (f *MemoryRecorder) setProblem(n int, c *condition, err error) {
	c.problem = ""
	if err != nil {
		c.problem = err.Error()
		f.r.Note("trigger cannot be checked: %v", err)
	}
	f.mu.Lock()
	f.problems[n] = c.problem
	f.mu.Unlock()
}
