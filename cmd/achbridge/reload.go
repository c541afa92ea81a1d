package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func reloadCommand(a *app) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon read its configuration again",
		Long: `Have the running daemon read its configuration again, with the environment and
flags that it was started with; SIGHUP does the same. All of it is taken or
nothing: a file with a mistake changes nothing and the mistakes are shown.

What is sent and received goes on: channels whose rules did not change do not
miss a frame. Mirrors and pushes that achbridge mirror and push have asked for
stay. Keys that only a restart can change are named.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r reloadReply
			if err := a.client(path).post(cmd.Context(), "/v1/reload", struct{}{}, &r); err != nil {
				return err
			}
			if asJSON {
				return a.ui.json(r)
			}
			return a.showReload(r)
		},
	}
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &path)
	return cmd
}

func (a *app) showReload(r reloadReply) error {
	text := "nothing changed"
	if len(r.Changed) > 0 {
		text = "in effect now: " + strings.Join(r.Changed, ", ")
	}
	if err := a.ui.line("%s: %s", cmp.Or(r.File, "no configuration file"), text); err != nil {
		return err
	}
	if len(r.Restart) > 0 {
		a.ui.note("%s changed too, which takes effect when the daemon is started again", andList(r.Restart))
	}
	return nil
}

// reloadReply is what reading the configuration again came to. Lists are of keys.
type reloadReply struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"` // in effect now
	Restart []string `json:"restart"` // changed, and in effect after a restart
}

// reload reads the configuration again and has the node do what it says. An
// error has changed nothing.
func (d *running) reload() (reloadReply, error) {
	manager := manager{log: d.log}
	manager.tell(reloading())
	defer manager.tell(daemon.SdNotifyReady)
	d.reloading.Lock()
	defer d.reloading.Unlock()
	r := reloadReply{Changed: []string{}, Restart: []string{}}
	next, err := d.load()
	if err == nil {
		err = next.nameBy(d.trust.held())
	}
	if err == nil {
		r.File = next.path
		r.Changed, r.Restart = next.changes(d.config())
		next.keepFixed(d.config())
		err = d.node.Apply(next.wanted())
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.log.Error("configuration not taken, all stays as it was", "err", strings.TrimSpace(line))
		}
		if ps, ok := errors.AsType[problems](err); ok {
			err = ps
		}
		return r, badRequest{err}
	}
	d.level.Set(next.Log.Level)
	d.current.Store(next)
	d.log.Info("configuration read again", "config", r.File, "changed", r.Changed, "restart", r.Restart)
	return r, nil
}

// reloading is what systemd wants to be told, with the time.
func reloading() string {
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, readClock(unix.CLOCK_MONOTONIC).Microseconds())
}

// changes are the keys whose values are not those of before.
func (c *config) changes(before *config) (now, restart []string) {
	now, restart = []string{}, []string{}
	for _, key := range configKeys {
		switch {
		case reflect.DeepEqual(key.of(c), key.of(before)):
		case key.fixed:
			restart = append(restart, key.name)
		default:
			now = append(now, key.name)
		}
	}
	slices.Sort(now)
	slices.Sort(restart)
	return now, restart
}

// keepFixed takes over from before what a running daemon does not change, so
// that c is what runs.
func (c *config) keepFixed(before *config) {
	for _, key := range configKeys {
		if key.fixed {
			reflect.ValueOf(key.of(c)).Elem().Set(reflect.ValueOf(key.of(before)).Elem())
			c.from[key.name] = before.from[key.name]
		}
	}
	c.static, c.domains = before.static, before.domains
}
