package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/localach"
)

// channels are those that the demo's robot writes.
var channels = []channel{
	{name: "imu", size: 64, period: time.Millisecond},
	{name: "joints", size: 3000, period: 5 * time.Millisecond},
	{name: "camera", size: 300_000, period: 100 * time.Millisecond},
}

type channel struct {
	name   string
	size   int // bytes of a frame
	period time.Duration
}

// Config describes a demo.
type Config struct {
	Shm    localach.Dir // shared memory, where the demo makes its directory
	Length time.Duration
	Over   via.Kind
	Out    io.Writer // for a table once a second; nil for none
	// Tour, unless nil, is called after all channels have been mirrored for two seconds. dir is the directory of the PC's
	// channels, socket the control socket of its daemon. ctx also ends when a daemon ends. When Tour returns, the demo ends;
	// Length has no effect.
	Tour func(ctx context.Context, dir localach.Dir, socket string) error
}

// Run runs the daemons of a robot and a PC on this machine for cfg.Length, or until ctx ends, and returns what it has measured. At
// the end it removes everything that it created. It returns an error if the demo cannot start, if a daemon ends, or if Out fails.
func Run(ctx context.Context, cfg Config) (Report, error) {
	return newPair(cfg).run(ctx)
}

// pair is a robot and a PC on one machine.
type pair struct {
	Config
	home      home
	robot, pc host
	options   rule.QoS                                    // options of the mirrors
	serve     func(context.Context, *daemon.Daemon) error // runs a daemon until the context ends
	wait      meanWait
}

func newPair(cfg Config) *pair {
	return &pair{Config: cfg, wait: newMeanWait(), serve: func(ctx context.Context, d *daemon.Daemon) error { return daemon.Serve(ctx, d, nil) }}
}

var errNoReason = errors.New("no reason is known")

// starter starts a function in a goroutine. The function must run until its context ends. Its error ends the demo, and Run returns it.
type starter func(func(context.Context) error)

// mirror returns the name of the channel's mirror on the PC.
func (d *pair) mirror(c channel) string { return d.robot.name + "." + c.name }

func (d *pair) run(ctx context.Context) (r Report, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("demo: %w", err)
		}
	}()
	if d.home, err = newHome(d.Shm); err != nil {
		return r, err
	}
	defer d.home.remove()
	for _, h := range []struct {
		*host
		name string
	}{{&d.robot, "robot"}, {&d.pc, "pc"}} {
		h.host.name = h.name
		var files string
		if h.dir, files, err = d.home.host(h.name); err != nil {
			return r, err
		}
		h.socket = filepath.Join(files, "sock")
	}
	if err := d.create(); err != nil {
		return r, err
	}
	return d.runUntil(ctx)
}

// runUntil runs the daemons and meters until the demo ends. interrupted ends when the user presses Ctrl-C. The daemons then still
// run until they have delivered the last frames.
func (d *pair) runUntil(interrupted context.Context) (Report, error) {
	ctx, fail := context.WithCancelCause(interrupted)
	defer fail(nil)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	start := func(f func(context.Context) error) {
		group.Go(func() {
			if err := f(work); err != nil {
				fail(err)
			}
		})
	}
	err := d.begin(ctx, start)
	var m *meters
	var length time.Duration
	if err == nil {
		m = d.measure(start)
		begun := time.Now()
		err = d.show(ctx, m)
		length = time.Since(begun)
		m.finish()
		d.wait.sample()
	}
	if ctx.Err() != nil && interrupted.Err() == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	stop()
	group.Wait()
	wait, _ := d.wait.share()
	return m.report(wait, length), nil
}

// create makes the robot's channels.
func (d *pair) create() error {
	for _, c := range channels {
		ch, err := d.robot.dir.Create(c.name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: c.size}.Grow()})
		if err != nil {
			return err
		}
		ch.Close()
	}
	return nil
}

// begin starts the daemons and waits for the mirrors.
func (d *pair) begin(ctx context.Context, start starter) error {
	begun := time.Now()
	if err := d.print("Starting the daemons of a robot and a PC on this machine ...\n"); err != nil {
		return err
	}
	if err := d.daemons(ctx, start); err != nil {
		return err
	}
	if err := d.print("Waiting for the PC's mirrors of %d channels ...\n", len(channels)); err != nil {
		return err
	}
	if err := d.appear(ctx); err != nil {
		return err
	}
	next := fmt.Sprintf("Ages for %v, Ctrl-C ends it sooner", d.Length)
	if d.Tour != nil {
		next = "The tour begins soon, Ctrl-C ends it"
	}
	return d.print("Mirrored %.1f s after the start. %s:\n\n", time.Since(begun).Seconds(), next)
}

// print prints progress, unless Out is nil.
func (d *pair) print(format string, args ...any) error {
	if d.Out == nil {
		return nil
	}
	_, err := fmt.Fprintf(d.Out, format, args...)
	return err
}

// tourAfter is the time from the start of the meters to the start of the tour. In it the daemons measure what the tour shows.
const tourAfter = 2 * time.Second

// show prints the table once a second until Length is over, the tour has ended, or ctx ends.
func (d *pair) show(ctx context.Context, m *meters) error {
	if d.Tour != nil {
		timer := time.NewTimer(tourAfter)
		defer timer.Stop()
		if err := d.pass(ctx, timer.C, m); err != nil || ctx.Err() != nil {
			return err
		}
		return d.Tour(ctx, d.pc.dir, d.pc.socket)
	}
	end := time.NewTimer(d.Length)
	defer end.Stop()
	return d.pass(ctx, end.C, m)
}

// pass prints the table once a second until end receives or ctx ends. Neither is an error. The report has the figures until then.
func (d *pair) pass(ctx context.Context, end <-chan time.Time, m *meters) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	if err := d.print("%-14s %9s %12s %12s\n", "MIRROR", "FRAMES/S", "AGE MEAN ms", "AGE P99 ms"); err != nil {
		return err
	}
	d.wait.sample()
	for {
		select {
		case <-second.C:
			d.wait.sample()
			for i, a := range m.ages {
				rate, age := a.window()
				if err := d.print("%-14s %9d %12.2f %12.2f\n", d.mirror(channels[i]), rate, age.Mean, age.P99); err != nil {
					return err
				}
			}
		case <-end:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
