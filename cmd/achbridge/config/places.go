package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"achbridge/cmd/achbridge/ui"
)

// Places of files: root's are the system's, those of a service are the
// directories that systemd made for it (systemd.exec(5), RuntimeDirectory=),
// everybody else's follow the XDG base directories. Reading verbs try the user's
// place first, then the system's, so that a user reaches the daemon of the host.

// Places finds the files of whoever runs this program.
type Places struct {
	Env func(string) string // the environment, as os.Getenv has it
	UID int
}

const (
	SystemKey     = "/etc/achbridge/key"
	SystemCA      = "/etc/achbridge/ca"
	SystemConfig  = "/etc/achbridge/achbridge.yaml"
	SystemControl = "/run/achbridge/control.sock"
	SystemState   = "/var/lib/achbridge"
)

// KeyPath is where `key new` writes and, when it exists, where others read.
func (p Places) KeyPath() (string, error) {
	return keyPlace.of(p)
}

// CAPath is the directory of the authority.
func (p Places) CAPath() (string, error) {
	return caPlace.of(p)
}

// FindKey is the key file to read: the user's when there is one, else the
// system's when there is one, else the one `key new` would write.
func (p Places) FindKey() (string, error) {
	own, err := p.KeyPath()
	return firstPresent(own, SystemKey), err
}

// findConfig is the configuration file to read when none is named: the user's,
// else the system's; empty when there is none.
func (p Places) findConfig() string {
	own, err := configPlace.of(p)
	if err != nil {
		own = SystemConfig
	}
	path := firstPresent(own, SystemConfig)
	_, err = os.Stat(path)
	somebodyElses := path != SystemConfig && errors.Is(err, fs.ErrPermission) // $HOME of whoever started us
	if somebodyElses || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// controlPath is where `run` listens.
func (p Places) controlPath() (string, error) {
	return controlPlace.of(p)
}

// FindControl is the socket on which to ask a daemon.
func (p Places) FindControl() string {
	own, err := p.controlPath()
	if err != nil {
		return SystemControl
	}
	return firstPresent(own, SystemControl)
}

// StatePath is the directory in which a node remembers who it is.
func (p Places) StatePath() (string, error) {
	return statePlace.of(p)
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
	keyPlace     = place{SystemKey, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "key"}
	caPlace      = place{SystemCA, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "ca"}
	configPlace  = place{SystemConfig, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "achbridge.yaml"}
	controlPlace = place{SystemControl, "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "", "control.sock"}
	statePlace   = place{SystemState, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", ""}
)

func (l place) of(p Places) (string, error) {
	if dir := p.Env(l.service); filepath.IsAbs(dir) {
		return filepath.Join(dir, l.file), nil
	}
	if p.UID == 0 {
		return l.system, nil
	}
	base := p.Env(l.user)
	if base == "" && l.fallback != "" && p.Env("HOME") != "" {
		base = filepath.Join(p.Env("HOME"), l.fallback)
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("$%s is not set", l.user)
	}
	return filepath.Join(base, "achbridge", l.file), nil
}

func firstPresent(own, system string) string {
	if _, err := os.Stat(own); err != nil {
		if _, err := os.Stat(system); err == nil {
			return system
		}
	}
	return own
}

// KeyFile is the path given on the command line, else the one that find gives.
func (p Places) KeyFile(given string, find func() (string, error)) (string, error) {
	if given != "" {
		return given, nil
	}
	path, err := find()
	if err != nil {
		return "", ui.Usage(fmt.Errorf("key: no place for it: %w", err), "name the file: --key FILE")
	}
	return path, nil
}

// Absolute is a path from wherever it is read; "" stays.
func Absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path
}

func (p Places) SocketFor(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	path, err := p.controlPath()
	if err != nil {
		return "", ui.Usage(fmt.Errorf("control socket: no place for it: %w", err), "name one: --control PATH")
	}
	return path, nil
}

// StateFile is a file in the state directory, "" when there is none.
func (p Places) StateFile(dir, file string) string {
	if dir == "" {
		var err error
		if dir, err = p.StatePath(); err != nil {
			return ""
		}
	}
	return filepath.Join(dir, file)
}
