// Publisher creates a robot's Ach channels and puts frames into them. It is the robot of
// docker-compose.yml, and a source of data for tests and experiments:
//
//	publisher [--channel NAME:HZ:BYTES]... [--for 10s] [-- COMMAND ARGS...]
//
// The default channels are those in the environment variable PUBLISHER_CHANNELS, else
// imu:1000:64, joints:200:3000 and camera:10:300000. Each frame begins with a stamp: its
// sequence number, then the time of the put in ns of CLOCK_MONOTONIC, both uint64 little
// endian. The sequence number is Ach's, as long as no other program writes. At the end
// the publisher logs for each channel how many puts there were, how many failed, and how
// long the longest took, the delay of a robot's control loop. SIGUSR1 stops the puts. The
// channels then stay until the publisher ends.
//
// With a COMMAND the publisher runs it as its child, for a container that has to run two
// processes. A signal ends both. The end of the child ends the publisher, with the child's
// exit code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"achbridge/localach"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	err = opts.run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if child, ok := errors.AsType[*exec.ExitError](err); ok && child.Exited() {
		os.Exit(child.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "publisher:", err)
		os.Exit(1)
	}
}

type options struct {
	dir      localach.Dir
	channels []stream
	limit    time.Duration // 0 means no limit
	child    []string      // empty means no child
}

// parseOptions parses the command line. It also writes errors to stderr.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	opts := options{dir: localach.Shm}
	flags := flag.NewFlagSet("publisher", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("channel", "publish `NAME:HZ:BYTES`; again for more channels", func(text string) error {
		s, err := parseStream(text)
		opts.channels = append(opts.channels, s)
		return err
	})
	flags.Func("shm", "`DIRECTORY` of the channel files (default /dev/shm)", func(text string) error {
		opts.dir = localach.Dir(text)
		return nil
	})
	flags.DurationVar(&opts.limit, "for", 0, "end after so long (0: at a signal)")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.child = flags.Args()
	if len(opts.channels) == 0 {
		for _, text := range strings.Fields(os.Getenv("PUBLISHER_CHANNELS")) {
			s, err := parseStream(text)
			if err != nil {
				err = fmt.Errorf("PUBLISHER_CHANNELS: %w", err)
				fmt.Fprintln(stderr, err)
				return opts, err
			}
			opts.channels = append(opts.channels, s)
		}
	}
	if len(opts.channels) == 0 {
		opts.channels = []stream{
			{Name: "imu", Rate: 1000, Size: 64},
			{Name: "joints", Rate: 200, Size: 3000},
			{Name: "camera", Rate: 10, Size: 300_000},
		}
	}
	return opts, nil
}

// run puts frames until ctx ends, the time is over, the child ends or a channel fails.
// Then it ends the rest and removes the channels.
func (o options) run(ctx context.Context, log *slog.Logger) error {
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feeding, stop := signal.NotifyContext(ctx, syscall.SIGUSR1)
	defer stop()

	tasks := []func() error{}
	for _, s := range o.channels {
		feed, err := s.open(o.dir)
		if err != nil {
			return err
		}
		defer feed.remove(log)
		log.Info("publishing", "channel", s.Name, "hz", s.Rate, "bytes", s.Size)
		tasks = append(tasks, func() error {
			err := feed.run(feeding, log)
			if err == nil {
				<-ctx.Done()
			}
			return err
		})
	}
	if len(o.child) > 0 {
		tasks = append(tasks, func() error { return runChild(ctx, o.child) })
	}

	ended := make(chan error)
	for _, task := range tasks {
		go func() { ended <- task() }()
	}
	var first error
	for range tasks {
		if err := <-ended; first == nil {
			first = err
		}
		cancel()
	}
	return first
}

// runChild runs a command until it or ctx ends. When ctx ends, the command gets SIGTERM,
// and SIGKILL 5 s later, which is not an error.
func runChild(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}
