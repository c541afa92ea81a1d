package diagnose

import (
	"cmp"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// QoSText returns the options of a mirror that differ from the defaults. For the output of a mux it returns the inputs, and for the
// output of a merge "merge".
func QoSText(m status.Mirror) string {
	if m.Merge != nil {
		return "merge"
	}
	if m.Mux == nil {
		return rule.Differences(rule.QoS{}, m.QoS)
	}
	var names []string
	for _, in := range m.Mux.Inputs {
		names = append(names, in.Channel)
	}
	return "mux of " + ui.AndList(names)
}

// MuxText returns how long an input of a mux has won, or no input has been live. m is the mux's output.
func MuxText(m status.Mirror) string {
	if m.Mux.Winner == "" {
		return m.Name + ": no input has been live for " + ui.Seconds(m.Mux.SinceS)
	}
	return fmt.Sprintf("%s: %s has won for %s", m.Name, m.Mux.Winner, ui.Seconds(m.Mux.SinceS))
}

// muxFinding returns which input of a mux wins, and why the others do not. m is the mux's output.
func muxFinding(m status.Mirror) Finding {
	f := Finding{Cause: Well, Text: MuxText(m)}
	for i, in := range m.Mux.Inputs {
		text := fmt.Sprintf("input %d, %s: %s, %d frames, %d of them put", i+1, in.Channel, in.State, in.Frames, in.Put)
		if in.Reason != "" {
			text += "; " + in.Reason
		}
		f.Evidence = append(f.Evidence, text)
	}
	switch {
	case m.State == status.MirrorForeignWriter:
		return foreignWriterFinding(f, m)
	case m.State != status.MirrorLive:
		f.Cause, f.Text = cmp.Or(m.Cause, status.CauseOther), m.Name+" is not written: "+m.Reason
	case m.Mux.Winner == "":
		f.Cause, f.Fix = status.CausePublisherStopped, "look at the programs that put into its inputs"
	}
	return f
}
