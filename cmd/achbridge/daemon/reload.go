package daemon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
)

// reload reads the configuration again and applies it to the node. If it returns
// an error, nothing has changed.
func (d *Daemon) reload() (api.ReloadReply, error) {
	manager := service.Manager{Log: d.log}
	manager.Notify(reloading())
	defer manager.Notify(daemon.SdNotifyReady)
	d.settings.mu.Lock()
	defer d.settings.mu.Unlock()
	r := api.ReloadReply{Changed: []string{}, Restart: []string{}, Warnings: []string{}}
	var wrong []string
	next, err := d.settings.load()
	if err == nil {
		err = next.NameBy(d.trust.held())
	}
	if err == nil {
		r.File = next.Path
		r.Changed, r.Restart = next.Changes(d.config())
		if next.HubCreds == d.config().HubCreds && digest(next.HubCreds) != d.hubCreds {
			r.Restart = append(r.Restart, "hub_creds")
		}
		next.KeepFixed(d.config())
		cfg := wanted(next)
		cfg.Layouts, wrong = layoutsOf(next)
		if err = d.node.Apply(cfg); err == nil {
			d.takeLayouts(cfg.Layouts, &r)
		}
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.log.Error("cannot reload configuration, keeping the previous one", "err", strings.TrimSpace(line))
		}
		if ps, ok := errors.AsType[config.Problems](err); ok {
			err = ps
		}
		return r, badRequest{err}
	}
	if d.achd != nil {
		d.achd.SetRules(achdRules(next))
	}
	d.settings.level.Set(next.Log.Level)
	d.settings.current.Store(next)
	d.warnOfLayouts(wrong)
	r.Warnings = append(append(r.Warnings, next.Warnings()...), wrong...)
	d.log.Info("configuration reloaded", "config", r.File, "changed", r.Changed, "restart", r.Restart)
	return r, nil
}

// digest returns a hash of the content of a file, or "" if the file cannot be read.
func digest(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return string(sum[:])
}

// reloading returns the notification for systemd that a reload begins, with the time.
func reloading() string {
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, status.Monotonic(time.Now()).Microseconds())
}
