package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
)

func TestSupersededFramesOnIdleLinkHaveNote(t *testing.T) {
	for name, c := range map[string]struct {
		hz, avoidable uint64
		want          status.Cause
	}{
		"none":          {1000, 0, ""},
		"few":           {1000, 9, ""},
		"busy host":     {1000, 50, status.CauseHostBusy},
		"looks too few": {4000, 800, status.CauseSeldomWatched},
	} {
		f := flow{what: "imu", hosts: flowHosts{origin: "robot"}, link: linkUse{to: "to pc"}, s: 1, hz: float64(c.hz), avoidable: c.avoidable}
		f.frames.Offered, f.frames.Delivered, f.frames.Superseded, f.qos.Budget = c.hz, c.hz-c.avoidable, c.avoidable, time.Second
		got := status.Cause("")
		for _, n := range f.notes(Well) {
			got = n.Cause
			if !strings.Contains(n.Text, fmt.Sprintf("%d of %d frames", c.avoidable, c.hz)) || n.Fix != "" {
				t.Errorf("%s: got %+v, want the number of frames and no fix", name, n)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
