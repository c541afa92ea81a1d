package daemon

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
)

// keyState holds the content of the daemon's key file and its revocation list. Both
// files may change while the daemon runs.
type keyState struct {
	path       string    // path of the key file; "" if the key is from the environment and cannot change
	keyStamp   fileStamp // stamp of the key file when it was last read
	list       fileStamp // stamp of the revocation list in the directory of the key file
	storedList string    // file that stores the newest revocation list; "" without a state directory
	had        uint64    // number of the revocation list in the file kept
	warned     time.Time // time of the last warning that the certificate ends

	mu  sync.Mutex
	key trust.Key
}

// newKeyState reads the key: of the file named by the configuration, else of the environment or the default file.
func (h Host) newKeyState(named string) (*keyState, error) {
	var before fileStamp // from before the file is read, so that no later change is missed
	if path, err := h.KeyFile(named, h.FindKey); err == nil {
		before = stampOf(path)
	}
	key, path, err := h.Key(named, h.FindKey)
	return &keyState{path: path, keyStamp: before, key: key}, err
}

func (s *keyState) held() trust.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

func (s *keyState) hold(key trust.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// checkEvery is the interval at which the files, and the system's name, are checked.
const checkEvery = time.Second

// watchTrust applies changes of the key file and the revocation list, until ctx ends.
func (d *Daemon) watchTrust(ctx context.Context) error {
	return service.Repeat(ctx, checkEvery, func() {
		d.followKey()
		d.followList()
		d.endpoint.Review()
		d.warnOfEnd(time.Now())
	})
}

// followKey applies a changed key file. It ignores a file that is unreadable or
// incomplete, except for a log message.
func (d *Daemon) followKey() {
	if d.trust.path == "" {
		return
	}
	now := stampOf(d.trust.path)
	if now == d.trust.keyStamp {
		return
	}
	d.trust.keyStamp = now
	key, err := config.ReadKey(d.trust.path)
	if err == nil {
		err = d.endpoint.SetKey(key)
	}
	if err != nil {
		d.log.Error("cannot reload key file, keeping the previous key", "path", d.trust.path, "err", err)
		return
	}
	d.trust.hold(key)
	d.announcer.join(key.Network())
	d.dial()
	d.log.Info("key file reloaded", "path", d.trust.path, "networks", key.Networks())
}

// recall loads the revocation list that the last run of the daemon stored in kept, and
// the one in the directory of the key file.
func (d *Daemon) recall(kept string) {
	d.trust.storedList = kept
	if kept != "" && d.trust.held().Host() != "" {
		d.takeList(kept)
		d.trust.had = d.endpoint.Revocations().Number()
	}
	d.followList()
}

// followList applies a changed revocation list in the directory of the key file. It
// stores the newest list, including one from a peer.
func (d *Daemon) followList() {
	if d.trust.held().Host() == "" {
		return
	}
	if d.trust.path != "" {
		beside := config.RevokedBeside(d.trust.path)
		if now := stampOf(beside); now != d.trust.list {
			d.trust.list = now
			d.takeList(beside)
		}
	}
	list := d.endpoint.Revocations()
	if list.Number() <= d.trust.had || d.trust.storedList == "" {
		return
	}
	d.trust.had = list.Number()
	if err := config.KeepFile(d.trust.storedList, []byte(list.Text()), 0o644); err != nil {
		d.log.Warn("cannot store revocation list, after a restart it must come from a peer", "err", err)
	}
}

// takeList applies the revocation list in a file, if the file exists.
func (d *Daemon) takeList(path string) {
	list, err := config.ReadRevocations(path)
	if err == nil && list != nil {
		_, err = d.endpoint.Revoke(list.Bytes())
	}
	if err != nil {
		d.log.Error("cannot read revocation list", "path", path, "err", err)
	}
}

// warnOfEnd logs, at most once in config.WarnEvery, that the certificate of this host must be renewed.
func (d *Daemon) warnOfEnd(now time.Time) {
	ends := d.trust.held().Ends()
	if ends.IsZero() || ends.Sub(now) > config.WarnAhead || now.Sub(d.trust.warned) < config.WarnEvery {
		return
	}
	d.trust.warned = now
	text := "the certificate of this host ends soon"
	if now.After(ends) {
		text = "the certificate of this host has ended: nobody links with it"
	}
	d.node.LogEvent(slog.LevelWarn, text, status.Event{Kind: status.EventCertificateEnds, Text: text}, "ends", ui.Day(ends), "cure", "achbridge ca issue "+d.self.Host)
}

// membership returns the node id and the networks of this host.
func (d *Daemon) membership() Membership {
	return Membership{node: d.self.Node, Networks: d.trust.held().Networks()}
}

// info returns the daemon's section of the status.
func (d *Daemon) info() api.DaemonInfo {
	info := d.about
	key := d.trust.held()
	info.Network = key.Network()
	if ends := key.Ends(); !ends.IsZero() {
		info.CertificateEnds = &ends
	}
	info.Revocations = d.endpoint.Revocations().Number()
	return info
}

// fileStamp changes when a file is written or replaced. The zero value means that the
// file does not exist.
type fileStamp struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fileStamp{uint64(stat.Dev), stat.Ino, stat.Size, stat.Ctim}
}
