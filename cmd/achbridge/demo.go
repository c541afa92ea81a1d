package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
	"achbridge/bridge/transport"
	"achbridge/localach"
)

// demoChannels are what the demo's robot publishes.
var demoChannels = []demoChannel{
	{name: "imu", size: 64, period: time.Millisecond},
	{name: "joints", size: 3000, period: 5 * time.Millisecond},
	{name: "camera", size: 300_000, period: 100 * time.Millisecond},
}

type demoChannel struct {
	name   string
	size   int // bytes of a frame
	period time.Duration
}

// demoReport is what `demo --json` prints.
type demoReport struct {
	Channels []demoFigures `json:"channels"`
	UDPLoop  quantiles     `json:"udp_loop_ms"`
	OK       bool          `json:"ok"`
}

type demoFigures struct {
	Channel   string  `json:"channel"`
	Sent      uint64  `json:"sent"`
	Delivered uint64  `json:"delivered"`
	Age       ageInMs `json:"age_ms"`
	backwards uint64
}

type ageInMs struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func newDemoCommand() *cobra.Command {
	var length time.Duration
	var asJSON bool
	over := transportQUIC
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the bridge at work on this machine alone: no root, no key, no second host",
		Long: `demo makes three channels of a robot in this machine's shared memory, runs a
robot's node and a PC's node over loopback with a throw-away key, and
measures how old the newest frame in each mirror is, by a reader of its own.
It removes everything it made, also on Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			d := &demo{dir: localach.Shm, prefix: fmt.Sprintf("demo-%d.", os.Getpid()), out: cmd.OutOrStdout(), over: over, quiet: asJSON}
			report, err := d.run(ctx, length)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(d.out).Encode(report)
			} else {
				d.summary(report)
			}
			if err == nil && !report.OK {
				err = fmt.Errorf("demo: a mirror missed more than one frame in ten, or went back to an older one")
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&length, "for", 10*time.Second, "run for this `TIME`")
	cmd.Flags().Var(&over, "transport", "join them over quic, sctp or auto")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object at the end")
	return cmd
}

// demo is a robot and a PC on one machine.
type demo struct {
	dir    localach.Dir
	prefix string
	out    io.Writer
	over   transportMode
	quiet  bool
}

func (d *demo) origin(c demoChannel) string { return d.prefix + c.name }
func (d *demo) mirror(c demoChannel) string { return d.prefix + "pc." + c.name }

func (d *demo) run(ctx context.Context, length time.Duration) (demoReport, error) {
	defer d.cleanUp()
	for _, c := range demoChannels {
		ch, err := d.dir.Create(d.origin(c), localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: c.size}.Grow()})
		if err != nil {
			return demoReport{}, fmt.Errorf("demo: %w", err)
		}
		ch.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()

	fail := make(chan error, 16)
	start := func(f func(context.Context) error) {
		work.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				fail <- err
			}
		})
	}
	if err := d.nodes(start); err != nil {
		return demoReport{}, fmt.Errorf("demo: %w", err)
	}
	if err := d.appear(ctx, fail); err != nil {
		return demoReport{}, fmt.Errorf("demo: %w", err)
	}
	loop := &udpLoop{}
	start(loop.run)
	publishers, meters := make([]*publisher, len(demoChannels)), make([]*ageMeter, len(demoChannels))
	for i, c := range demoChannels {
		publishers[i] = &publisher{dir: d.dir, name: d.origin(c), size: c.size, period: c.period}
		meters[i] = &ageMeter{dir: d.dir, name: d.mirror(c)}
		start(publishers[i].run)
		start(meters[i].run)
	}
	err := d.show(ctx, length, meters, fail)
	for i := range publishers {
		meters[i].ended.Store(true)
		publishers[i].stop.Store(true)
	}
	pauseUntilQuiet(ctx, meters)
	cancel()
	work.Wait()
	if err != nil {
		return demoReport{}, fmt.Errorf("demo: %w", err)
	}
	return d.report(publishers, meters, loop), nil
}

// nodes starts the robot's node and the PC's, joined over loopback.
func (d *demo) nodes(start func(func(context.Context) error)) error {
	watcher, err := localach.NewWatcher()
	if err != nil {
		return err
	}
	start(watcher.Run)
	key := transport.NewKey()
	robot, pc := bridge.Config{Host: "robot", Export: bridge.Grants{}}, bridge.Config{Host: "pc", Export: bridge.Grants{}}
	for _, c := range demoChannels {
		robot.Export = append(robot.Export, bridge.GrantTo(d.origin(c))...)
		pc.Mirrors = append(pc.Mirrors, bridge.Mirror{Host: "robot", Channel: d.origin(c), As: d.mirror(c)})
	}
	var robotAddrs transport.Addrs
	for i, cfg := range []*bridge.Config{&robot, &pc} {
		udp, err := listenUDP("127.0.0.1:0", d.over)
		if err != nil {
			return err
		}
		cfg.Node = transport.NodeID{byte(i + 1)}
		cfg.Dir, cfg.Source, cfg.Log = d.dir, bridge.ShmSource(d.dir, watcher), slog.New(slog.DiscardHandler)
		cfg.Endpoint, err = udp.listen(transport.Config{Key: key, Node: cfg.Node, Host: cfg.Host, Log: cfg.Log})
		if err != nil {
			udp.close()
			return err
		}
		node, err := bridge.New(*cfg)
		if err != nil {
			return err
		}
		if i == 0 {
			robotAddrs = cfg.Endpoint.LocalAddrs()
		}
		start(func(ctx context.Context) error {
			defer cfg.Endpoint.Close()
			return node.Run(ctx)
		})
		if i == 1 {
			node.SetPeers([]bridge.Peer{{Host: "robot", Addrs: []transport.Addrs{robotAddrs}, Static: true}})
		}
	}
	return nil
}

// appear waits until every mirror is there.
func (d *demo) appear(ctx context.Context, fail <-chan error) error {
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		missing := ""
		for _, c := range demoChannels {
			ch, err := d.dir.Open(d.mirror(c))
			if err != nil {
				missing = d.mirror(c)
				break
			}
			ch.Close()
		}
		if missing == "" {
			return nil
		}
		select {
		case <-look.C:
		case err := <-fail:
			return err
		case <-deadline.C:
			return fmt.Errorf("mirror %s did not appear within 5 s", missing)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// show prints the table once a second until length is over or somebody stops it.
func (d *demo) show(ctx context.Context, length time.Duration, meters []*ageMeter, fail <-chan error) error {
	end := time.NewTimer(length)
	defer end.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	if !d.quiet {
		fmt.Fprintf(d.out, "%-24s %9s %12s %12s\n", "CHANNEL", "FRAMES/S", "AGE MEAN ms", "AGE P99 ms")
	}
	for {
		select {
		case <-second.C:
			for i, m := range meters {
				rate, age := m.window()
				if !d.quiet {
					fmt.Fprintf(d.out, "%-24s %9d %12.2f %12.2f\n", d.mirror(demoChannels[i]), rate, age.Mean, age.P99)
				}
			}
		case err := <-fail:
			return err
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil // Ctrl-C: the figures so far
		}
	}
}

func (d *demo) report(publishers []*publisher, meters []*ageMeter, loop *udpLoop) demoReport {
	r := demoReport{UDPLoop: loop.quantiles(), OK: true}
	for i, c := range demoChannels {
		f := demoFigures{Channel: d.origin(c), Sent: publishers[i].sent, Delivered: meters[i].frames, Age: meters[i].total(), backwards: meters[i].backwards}
		r.OK = r.OK && f.Sent > 0 && f.Delivered*10 >= f.Sent*9 && f.backwards == 0
		r.Channels = append(r.Channels, f)
	}
	return r
}

func (d *demo) summary(r demoReport) {
	fmt.Fprintf(d.out, "\n%-24s %9s %9s %9s %9s %9s\n", "CHANNEL", "SENT", "DELIVERED", "MEAN ms", "P99 ms", "MAX ms")
	for _, c := range r.Channels {
		fmt.Fprintf(d.out, "%-24s %9d %9d %9.2f %9.2f %9.2f\n", c.Channel, c.Sent, c.Delivered, c.Age.Mean, c.Age.P99, c.Age.Max)
	}
	fmt.Fprintf(d.out, "\nA bare UDP packet over loopback took %.3f ms (p50), %.3f ms (p99) in the same run.\n", r.UDPLoop.P50, r.UDPLoop.P99)
	fmt.Fprintln(d.out, "Age is how old the newest frame in the mirror is, sampled by a reader of its own.")
}

func (d *demo) cleanUp() {
	for _, c := range demoChannels {
		d.dir.Unlink(d.origin(c))
		d.dir.Unlink(d.mirror(c))
	}
}
