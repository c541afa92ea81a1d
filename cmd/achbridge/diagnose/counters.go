package diagnose

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// DropsText lists the reasons why frames did not reach the mirror, with counts, or returns "" if all did.
func DropsText(a ledger.FrameCounters) string {
	var list []string
	for _, d := range a.Drops() {
		if d.Count > 0 {
			list = append(list, fmt.Sprintf("%s %d", d.Name, d.Count))
		}
	}
	return strings.Join(list, ", ")
}

// DeliveredText returns the number of frames that reached the mirror, and how many of them past their budget.
func DeliveredText(a ledger.FrameCounters) string {
	text := fmt.Sprint(a.Delivered + a.LateKept)
	if a.LateKept > 0 {
		text += fmt.Sprintf(" (%d late_kept)", a.LateKept)
	}
	return text
}

// NotAtWork returns an error that names the mirrors and pushes that do not work, or nil.
func NotAtWork(s status.Report) error {
	var errs []error
	for _, m := range s.Mirrors {
		if m.State != status.MirrorLive && !m.Temporary {
			errs = append(errs, fmt.Errorf("mirror %s is %s: %s", m.Name, m.State, cmp.Or(m.Reason, "no answer yet")))
		}
	}
	for _, p := range s.Pushes {
		if p.State != status.PushAccepted {
			errs = append(errs, fmt.Errorf("push %s to %s is %s: %s", p.Channel, p.Host, p.State, cmp.Or(p.Reason, "no answer yet")))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return ui.Failure(errors.Join(errs...), "")
}
