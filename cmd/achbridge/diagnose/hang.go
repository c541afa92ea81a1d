package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
)

// hangingPut returns the finding that a put into a channel of this host hangs. That is so if a put is waking readers in both
// reports, and the newest frame is the same.
func (s *Snapshot) hangingPut(before, now status.Local) (Finding, bool) {
	if !before.Waking || !now.Waking || before.Seq != now.Seq || s.Apart < flowLeast {
		return Finding{}, false
	}
	f := HangingPut(now.Channel, now.Ach1x)
	f.Evidence = []string{fmt.Sprintf("it stays at frame %d, and a put has been waking readers for %.3g s", now.Seq, s.Apart.Seconds())}
	return f, true
}

// HangingPut returns the finding that a put hangs, without evidence. isAch1x means that the channel was made with Ach 1.x.
func HangingPut(channel string, isAch1x bool) Finding {
	return Finding{Cause: status.CauseReaderKilled, Text: "a put into " + channel + " hangs: it wakes readers, and one of them was killed or stopped while it waited",
		Fix: "resume a reader that is stopped (kill -CONT); if none is, " + recreate(channel, isAch1x)}
}

// KilledReader returns the finding that a put will hang soon, without evidence. isAch1x is as for HangingPut.
func KilledReader(channel string, isAch1x bool) Finding {
	return Finding{Cause: status.CauseReaderKilled, Text: "a reader of " + channel + " was killed while it waited: a put can hang soon", Fix: recreate(channel, isAch1x)}
}

// recreate returns the fix that replaces a channel by a new one. achbridge cannot create channels of Ach 1.x, so there the robot's own
// script must do it.
func recreate(channel string, isAch1x bool) string {
	if isAch1x {
		return "end the programs that use it, with kill -9 if they hang, and have their own start script make it again"
	}
	return "end the programs that use it, with kill -9 if they hang, then achbridge channel rm " + channel + ": its publisher creates it again"
}
