package demo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/discovery"
	"achbridge/localach"
)

// host is a host of the demo.
type host struct {
	name   string
	dir    localach.Dir // its channels
	socket string       // control socket of its daemon
}

// daemons starts the daemon of the robot and then that of the PC, which mirrors all channels of the robot.
func (d *pair) daemons(ctx context.Context, start starter) error {
	key := filepath.Join(d.home.path, "key")
	if err := trust.NewKey().Write(key); err != nil {
		return err
	}
	settings := config.Settings{Listen: "127.0.0.1:0", Transport: d.Over, Key: key}
	listen, err := d.daemon(ctx, start, d.robot, &config.Config{Settings: settings})
	if err != nil {
		return err
	}
	robot, err := discovery.ParseStatic(listen)
	if err != nil {
		return err
	}
	pc := &config.Config{Settings: settings, StaticPeers: []discovery.Static{robot}}
	pc.MirrorRules = rule.Mirrors{{Host: d.robot.name, Channel: "*", QoS: d.options}}
	_, err = d.daemon(ctx, start, d.pc, pc)
	return err
}

// daemon starts the daemon of a host and returns the address on which it listens.
func (d *pair) daemon(ctx context.Context, start starter, h host, c *config.Config) (listen string, err error) {
	c.Name, c.Control, c.State = h.name, h.socket, filepath.Join(filepath.Dir(h.socket), "state")
	c.ExportGrants = rule.GrantTo("*")
	opened, err := daemon.Host{Places: config.Places{Env: os.Getenv, UID: os.Getuid()}, Dir: h.dir}.New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	start(func(ctx context.Context) error {
		err := d.serve(ctx, opened)
		if ctx.Err() == nil {
			err = fmt.Errorf("the daemon of %s ended: %w", h.name, cmp.Or(err, errNoReason))
		}
		ended <- err
		return err
	})
	var s api.StatusReply
	client := api.New(h.socket)
	if err = client.Answers(ctx); err == nil {
		_, err = client.Get(ctx, "/v1/status", &s)
	}
	if err != nil {
		select {
		case end := <-ended: // more precise than the client's error
			err = cmp.Or(end, err)
		case <-time.After(time.Second):
		}
	}
	return s.Listen, err
}

// appear waits until all mirrors exist.
func (d *pair) appear(ctx context.Context) error {
	const limit = 15 * time.Second // a busy machine needs some seconds
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		missing := ""
		for _, c := range channels {
			if _, err := d.pc.dir.Info(d.mirror(c)); err != nil {
				missing = d.mirror(c)
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			return fmt.Errorf("mirror %s did not appear within %v", missing, limit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
