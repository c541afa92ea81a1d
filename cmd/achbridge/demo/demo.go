package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/localach"
)

// channels are what the demo's robot publishes.
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

// Report is what `demo --json` prints.
type Report struct {
	Channels []channelFigures `json:"channels"`
	UDPLoop  quantiles        `json:"udp_loop_ms"`
	OK       bool             `json:"ok"`
}

// channelFigures has the results of one channel.
type channelFigures struct {
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

// Config is how the demo goes.
type Config struct {
	Length time.Duration
	Over   via.Kind
	Out    io.Writer // a table once a second
	Quiet  bool      // no table
}

// Run has a robot and a PC on this machine for a while, and removes all that they made.
func Run(ctx context.Context, cfg Config) (Report, error) {
	d := &pair{dir: localach.Shm, prefix: fmt.Sprintf("demo-%d.", os.Getpid()), Config: cfg}
	return d.run(ctx, cfg.Length)
}

// pair is a robot and a PC on one machine.
type pair struct {
	Config
	dir    localach.Dir
	prefix string
}

func (d *pair) origin(c channel) string { return d.prefix + c.name }

func (d *pair) mirror(c channel) string { return d.prefix + "pc." + c.name }

func (d *pair) run(ctx context.Context, length time.Duration) (Report, error) {
	defer d.cleanUp()
	for _, c := range channels {
		ch, err := d.dir.Create(d.origin(c), localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: c.size}.Grow()})
		if err != nil {
			return Report{}, fmt.Errorf("demo: %w", err)
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
		return Report{}, fmt.Errorf("demo: %w", err)
	}
	if err := d.appear(ctx, fail); err != nil {
		return Report{}, fmt.Errorf("demo: %w", err)
	}
	loop := &udpLoop{}
	start(loop.run)
	publishers, meters := make([]*publisher, len(channels)), make([]*ageMeter, len(channels))
	for i, c := range channels {
		publishers[i] = &publisher{dir: d.dir, name: d.origin(c), size: c.size, period: c.period}
		meters[i] = &ageMeter{dir: d.dir, name: d.mirror(c)}
		start(publishers[i].run)
		start(meters[i].run)
	}
	err := d.show(ctx, length, meters, fail)
	for i := range publishers {
		meters[i].isStopped.Store(true)
		publishers[i].stop.Store(true)
	}
	pauseUntilQuiet(ctx, meters)
	cancel()
	work.Wait()
	if err != nil {
		return Report{}, fmt.Errorf("demo: %w", err)
	}
	return d.report(publishers, meters, loop), nil
}

// nodes starts the robot's node and the PC's, joined over loopback.
func (d *pair) nodes(start func(func(context.Context) error)) error {
	watcher, err := localach.NewWatcher()
	if err != nil {
		return err
	}
	start(watcher.Run)
	key := trust.NewKey()
	robot, pc := bridge.Config{Host: "robot", Export: rule.Grants{}}, bridge.Config{Host: "pc", Export: rule.Grants{}}
	for _, c := range channels {
		robot.Export = append(robot.Export, rule.GrantTo(d.origin(c))...)
		pc.Mirrors = append(pc.Mirrors, rule.Mirror{Host: "robot", Channel: d.origin(c), As: d.mirror(c)})
	}
	var robotAddrs transport.Addrs
	for i, cfg := range []*bridge.Config{&robot, &pc} {
		udp, err := daemon.ListenUDP("127.0.0.1:0", d.Over)
		if err != nil {
			return err
		}
		cfg.Node = trust.NodeID{byte(i + 1)}
		cfg.Dir, cfg.Source, cfg.Log = d.dir, bridge.ShmSource(d.dir, watcher), slog.New(slog.DiscardHandler)
		cfg.Endpoint, err = udp.Listen(transport.Config{Key: key, Node: cfg.Node, Host: cfg.Host, Log: cfg.Log})
		if err != nil {
			udp.Close()
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
func (d *pair) appear(ctx context.Context, fail <-chan error) error {
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		missing := ""
		for _, c := range channels {
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
		case <-ticker.C:
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
func (d *pair) show(ctx context.Context, length time.Duration, meters []*ageMeter, fail <-chan error) error {
	end := time.NewTimer(length)
	defer end.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	if !d.Quiet {
		fmt.Fprintf(d.Out, "%-24s %9s %12s %12s\n", "CHANNEL", "FRAMES/S", "AGE MEAN ms", "AGE P99 ms")
	}
	for {
		select {
		case <-second.C:
			for i, m := range meters {
				rate, age := m.window()
				if !d.Quiet {
					fmt.Fprintf(d.Out, "%-24s %9d %12.2f %12.2f\n", d.mirror(channels[i]), rate, age.Mean, age.P99)
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

func (d *pair) report(publishers []*publisher, meters []*ageMeter, loop *udpLoop) Report {
	r := Report{UDPLoop: loop.quantiles(), OK: true}
	for i, c := range channels {
		f := channelFigures{Channel: d.origin(c), Sent: publishers[i].sent, Delivered: meters[i].frames, Age: meters[i].total(), backwards: meters[i].backwards}
		r.OK = r.OK && f.Sent > 0 && f.Delivered*10 >= f.Sent*9 && f.backwards == 0
		r.Channels = append(r.Channels, f)
	}
	return r
}

// Show prints the results.
func (r Report) Show(out io.Writer) {
	fmt.Fprintf(out, "\n%-24s %9s %9s %9s %9s %9s\n", "CHANNEL", "SENT", "DELIVERED", "MEAN ms", "P99 ms", "MAX ms")
	for _, c := range r.Channels {
		fmt.Fprintf(out, "%-24s %9d %9d %9.2f %9.2f %9.2f\n", c.Channel, c.Sent, c.Delivered, c.Age.Mean, c.Age.P99, c.Age.Max)
	}
	fmt.Fprintf(out, "\nA bare UDP packet over loopback took %.3f ms (p50), %.3f ms (p99) in the same run.\n", r.UDPLoop.P50, r.UDPLoop.P99)
	fmt.Fprintln(out, "Age is how old the newest frame in the mirror is, sampled by a reader of its own.")
	fmt.Fprintln(out, r.summary())
}

// summary says in one line what was shown.
func (r Report) summary() string {
	var sent, delivered uint64
	for _, c := range r.Channels {
		sent, delivered = sent+c.Sent, delivered+c.Delivered
	}
	if sent == 0 {
		return "Shown: nothing, since no frame was put."
	}
	first := r.Channels[0]
	return fmt.Sprintf("Shown: %d channels of a robot, mirrored on a PC over an encrypted link: %.4g %% of %d frames came, and %s was %.2f ms old on average.",
		len(r.Channels), 100*float64(delivered)/float64(sent), sent, first.Channel, first.Age.Mean)
}

func (d *pair) cleanUp() {
	for _, c := range channels {
		d.dir.Unlink(d.origin(c))
		d.dir.Unlink(d.mirror(c))
	}
}
