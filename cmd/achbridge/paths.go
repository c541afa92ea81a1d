package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Places of files: root's are the system's, everybody else's follow the XDG
// base directories. Reading verbs try the user's place first, then the
// system's, so that a user reaches the daemon of the host.

const (
	systemKey     = "/etc/achbridge/key"
	systemControl = "/run/achbridge/control.sock"
	systemState   = "/var/lib/achbridge"
)

// keyPath is where `key new` writes and, when it exists, where others read.
func (a *app) keyPath() (string, error) {
	return a.place(systemKey, "XDG_CONFIG_HOME", ".config", "key")
}

// findKey is the key file to read: the user's when there is one, else the
// system's when there is one, else the one `key new` would write.
func (a *app) findKey() (string, error) {
	own, err := a.keyPath()
	return firstPresent(own, systemKey), err
}

// controlPath is where `run` listens.
func (a *app) controlPath() (string, error) {
	return a.place(systemControl, "XDG_RUNTIME_DIR", "", "control.sock")
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
	return a.place(systemState, "XDG_STATE_HOME", ".local/state", "")
}

// place returns the system's path for root, else file in achbridge's folder
// under the directory that variable names, or under home/fallback.
func (a *app) place(system, variable, fallback, file string) (string, error) {
	if a.uid == 0 {
		return system, nil
	}
	base := a.env(variable)
	if base == "" && fallback != "" && a.env("HOME") != "" {
		base = filepath.Join(a.env("HOME"), fallback)
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("$%s is not set", variable)
	}
	return filepath.Join(base, "achbridge", file), nil
}

func firstPresent(own, system string) string {
	if _, err := os.Stat(own); err != nil {
		if _, err := os.Stat(system); err == nil {
			return system
		}
	}
	return own
}
