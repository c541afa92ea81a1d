package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Places of files: root's are the system's, those of a service are the
// directories that systemd made for it (systemd.exec(5), RuntimeDirectory=),
// everybody else's follow the XDG base directories. Reading verbs try the user's
// place first, then the system's, so that a user reaches the daemon of the host.

const (
	systemKey     = "/etc/achbridge/key"
	systemCA      = "/etc/achbridge/ca"
	systemConfig  = "/etc/achbridge/achbridge.yaml"
	systemControl = "/run/achbridge/control.sock"
	systemState   = "/var/lib/achbridge"
)

// keyPath is where `key new` writes and, when it exists, where others read.
func (a *app) keyPath() (string, error) {
	return keyPlace.of(a)
}

// caPath is the directory of the authority.
func (a *app) caPath() (string, error) {
	return caPlace.of(a)
}

// findKey is the key file to read: the user's when there is one, else the
// system's when there is one, else the one `key new` would write.
func (a *app) findKey() (string, error) {
	own, err := a.keyPath()
	return firstPresent(own, systemKey), err
}

// findConfig is the configuration file to read when none is named: the user's,
// else the system's; empty when there is none.
func (a *app) findConfig() string {
	own, err := configPlace.of(a)
	if err != nil {
		own = systemConfig
	}
	path := firstPresent(own, systemConfig)
	_, err = os.Stat(path)
	somebodyElses := path != systemConfig && errors.Is(err, fs.ErrPermission) // $HOME of whoever started us
	if somebodyElses || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// controlPath is where `run` listens.
func (a *app) controlPath() (string, error) {
	return controlPlace.of(a)
}

// findControl is the socket on which to ask a daemon.
func (a *app) findControl() string {
	own, err := a.controlPath()
	if err != nil {
		return systemControl
	}
	return firstPresent(own, systemControl)
}

// statePath is the directory in which a node remembers who it is.
func (a *app) statePath() (string, error) {
	return statePlace.of(a)
}

// place says where a file is, by who asks.
type place struct {
	system   string // for root
	service  string // variable that names the directory which systemd made
	user     string // variable that names the user's base directory
	fallback string // that directory below home, when the variable is not set
	file     string // in our folder; empty for the folder itself
}

var (
	keyPlace     = place{systemKey, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "key"}
	caPlace      = place{systemCA, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "ca"}
	configPlace  = place{systemConfig, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "achbridge.yaml"}
	controlPlace = place{systemControl, "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "", "control.sock"}
	statePlace   = place{systemState, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", ""}
)

func (p place) of(a *app) (string, error) {
	if dir := a.env(p.service); filepath.IsAbs(dir) {
		return filepath.Join(dir, p.file), nil
	}
	if a.uid == 0 {
		return p.system, nil
	}
	base := a.env(p.user)
	if base == "" && p.fallback != "" && a.env("HOME") != "" {
		base = filepath.Join(a.env("HOME"), p.fallback)
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("$%s is not set", p.user)
	}
	return filepath.Join(base, "achbridge", p.file), nil
}

func firstPresent(own, system string) string {
	if _, err := os.Stat(own); err != nil {
		if _, err := os.Stat(system); err == nil {
			return system
		}
	}
	return own
}
