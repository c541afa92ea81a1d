package bridge

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// usedUpSource is a pollSource that reports for a while that the inotify limit is reached.
type usedUpSource struct {
	pollSource
	until time.Duration
}

func (s usedUpSource) Changes(ctx context.Context, f func(localach.Event)) error {
	f(localach.Event{Kind: localach.Polling, Err: unix.EMFILE})
	go func() {
		pause(ctx, s.until)
		f(localach.Event{Kind: localach.Notified})
	}()
	return s.pollSource.Changes(ctx, f)
}

func TestMissingInotifyIsReportedUntilItIsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		robot.source = usedUpSource{pollSource{robot.puts}, 10 * time.Second}
		robot.run(Config{})
		time.Sleep(5 * time.Second)
		if got := robot.node.Status().NoInotify; !strings.Contains(got, "too many open files") {
			t.Errorf("NoInotify = %q, want the kernel's error", got)
		}
		time.Sleep(6 * time.Second)
		if got := robot.node.Status().NoInotify; got != "" {
			t.Errorf("NoInotify = %q when inotify is back, want nothing", got)
		}
		if n := strings.Count(robot.log.String(), "inotify unavailable"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
	})
}
