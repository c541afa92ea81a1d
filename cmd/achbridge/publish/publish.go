package publish

import (
	"context"
	"log/slog"
	"os/signal"
	"syscall"

	"achbridge/localach"
)

// Config configures Run.
type Config struct {
	Dir     localach.Dir
	Streams []Stream
	Log     *slog.Logger
}

// Run puts frames into the channels until ctx ends or a channel fails. Then it removes the channels. After
// SIGUSR1 it puts no more frames, but leaves the channels until ctx ends, like a program that hangs.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feeding, stop := signal.NotifyContext(ctx, syscall.SIGUSR1)
	defer stop()

	var claims []*claim
	defer func() {
		for _, c := range claims {
			c.remove(cfg.Log)
		}
	}()
	for _, s := range cfg.Streams {
		c, err := s.claim(cfg.Dir)
		if err != nil {
			return err
		}
		claims = append(claims, c)
	}
	ended := make(chan error)
	for _, c := range claims {
		cfg.Log.Info("publishing frames", "channel", c.Name, "hz", c.Rate, "bytes", c.Size)
		go func() {
			err := c.feed(feeding, cfg.Log)
			if err == nil {
				<-ctx.Done()
			}
			ended <- err
		}()
	}
	var first error
	for range claims {
		if err := <-ended; first == nil {
			first = err
		}
		cancel()
	}
	return first
}
