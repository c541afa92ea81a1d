package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/localach"
)

// shm returns a directory in shared memory that is removed at the end of the test.
func shm(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp(string(localach.Shm), "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

func TestFaultsOfReports(t *testing.T) {
	good := channelFigures{Channel: "imu", Sent: 1000, Delivered: 950}
	for name, r := range map[string]struct {
		report Report
		fault  string
		busy   bool
	}{
		"good":                  {Report{Channels: []channelFigures{good}}, "", false},
		"busy and good":         {Report{Channels: []channelFigures{good}, Wait: 0.5}, "", false},
		"few on a busy machine": {Report{Channels: []channelFigures{{Channel: "imu", Sent: 1000, Delivered: 840}, good}, Wait: 0.31}, "", true},
		"few on an idle machine": {Report{Channels: []channelFigures{good, {Channel: "joints", Sent: 1000, Delivered: 840}}, Wait: 0.09},
			"mirror of joints: only 84 % of the frames arrived, and the daemons waited for a CPU 9 % of the time", false},
		"few in a short demo": {Report{Channels: []channelFigures{{Channel: "imu", Sent: 100, Delivered: 84}}, tooShort: true}, "", false},
		"more than the wait explains": {Report{Channels: []channelFigures{{Channel: "imu", Sent: 1000, Delivered: 500}}, Wait: 0.2},
			"only 50 % of the frames arrived, and the daemons waited for a CPU 20 % of the time", false},
		"nothing":         {Report{Channels: []channelFigures{{Channel: "imu", Sent: 1000}}, Wait: 0.9}, "mirror of imu: none of 1000", false},
		"nothing put":     {Report{Channels: []channelFigures{{Channel: "imu"}}}, "no frame was put", false},
		"one put nothing": {Report{Channels: []channelFigures{good, {Channel: "camera"}}}, "", false},
		"backwards":       {Report{Channels: []channelFigures{{Channel: "imu", Sent: 10, Delivered: 10, backwards: 2}}, Wait: 0.9}, "an older frame came after a newer one 2 times", false},
	} {
		err := r.report.Fault()
		if (err == nil) != (r.fault == "") || err != nil && !strings.Contains(err.Error(), r.fault) {
			t.Errorf("%s: got %v, want %q", name, err, r.fault)
		}
		const said = "This machine is busy: 90 % of the frames arrived; the daemons waited for a CPU 31 % of the time."
		if summary := r.report.summary(); strings.Contains(summary, "This machine is busy") != r.busy || name == "few on a busy machine" && !strings.Contains(summary, said) {
			t.Errorf("%s: got summary %q", name, summary)
		}
	}
}

// A killed demo leaves its directory, but not the lock on it.
func TestNextDemoRemovesOnlyAbandonedHomes(t *testing.T) {
	dir := shm(t)
	living, err := newHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := newHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := killed.host("robot"); err != nil {
		t.Fatal(err)
	}
	killed.lock.Close()
	other := filepath.Join(string(dir), "achshm-imu")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := newHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	next.remove()
	for path, want := range map[string]bool{living.path: true, killed.path: false, next.path: false, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: got %v, want that it exists: %v", path, err, want)
		}
	}
	living.remove()
}

// runFor runs a demo and returns its report, what it printed, and its error.
func runFor(t *testing.T, length time.Duration, change func(*pair)) (Report, string, error) {
	t.Helper()
	var out bytes.Buffer
	d := newPair(Config{Shm: shm(t), Length: length, Over: via.QUIC, Out: &out})
	change(d)
	r, err := d.run(t.Context())
	if left, _ := os.ReadDir(string(d.Shm)); len(left) > 0 {
		t.Errorf("the demo left %v", left)
	}
	return r, out.String(), err
}

func TestDemoMirrorsFrames(t *testing.T) {
	r, out, err := runFor(t, time.Second, func(*pair) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Channels {
		if c.Delivered == 0 || c.backwards > 0 || c.Age.Mean == 0 {
			t.Errorf("got %+v, want frames in order", c)
		}
	}
	if want := "Starting the daemons"; !strings.Contains(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestSlowMirrorIsAFault(t *testing.T) {
	r, _, err := runFor(t, 3*time.Second, func(d *pair) { d.options.MaxRate = 50_000 })
	switch {
	case err != nil:
		t.Fatal(err)
	case r.explains(r.Channels[0]):
		t.Skipf("skipped: this machine is busy, a thread waited for a CPU %.0f %% of the time", 100*r.Wait)
	case r.Fault() == nil || r.OK:
		t.Errorf("got no fault for %+v, want one", r)
	}
}

// A daemon may end before it answers, while the demo measures, or during the tour.
func TestDemoFailsWhenADaemonEnds(t *testing.T) {
	waits := func(ctx context.Context, _ localach.Dir, _ string) error { <-ctx.Done(); return nil }
	for name, c := range map[string]struct {
		after  time.Duration
		reason error
		tour   func(context.Context, localach.Dir, string) error
		want   string
	}{
		"at once":         {0, errors.New("no memory"), nil, "the daemon of robot ended: no memory"},
		"without reason":  {500 * time.Millisecond, nil, nil, "ended: no reason is known"},
		"during the tour": {tourAfter + 2*time.Second, errors.New("no memory"), waits, "ended: no memory"},
	} {
		_, _, err := runFor(t, time.Minute, func(d *pair) {
			serve := d.serve
			d.Tour = c.tour
			d.serve = func(ctx context.Context, daemon *daemon.Daemon) error {
				ctx, cancel := context.WithTimeout(ctx, c.after)
				defer cancel()
				_ = serve(ctx, daemon)
				return c.reason
			}
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// Ctrl-C ends the publishers at once, but the daemons only after the last frames have arrived.
func TestInterruptedDemoIsNoFault(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var at time.Time
	d := newPair(Config{Shm: shm(t), Length: time.Minute, Over: via.QUIC, Out: writerFunc(func(line []byte) {
		if strings.HasPrefix(string(line), "MIRROR") {
			time.AfterFunc(300*time.Millisecond, func() { at = time.Now(); interrupt() })
		}
	})})
	serve, lasted := d.serve, make(chan time.Duration, 2)
	d.serve = func(ctx context.Context, daemon *daemon.Daemon) error {
		err := serve(ctx, daemon)
		lasted <- time.Since(at)
		return err
	}
	r, err := d.run(ctx)
	if err != nil || r.Fault() != nil {
		t.Errorf("got %v, fault %v of %+v; want none", err, r.Fault(), r)
	}
	if least := min(<-lasted, <-lasted); least < quiet {
		t.Errorf("a daemon ended %v after the interrupt, want at least %v", least, quiet)
	}
	if _, known := d.wait.share(); !known {
		t.Error("got no measured wait for a CPU, want one for a short demo too")
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(text []byte) (int, error) { f(text); return len(text), nil }
