package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"achbridge/cmd/achbridge/ui"
)

// Where files are: root uses the system's directories. A service uses the directories that
// systemd makes for it (systemd.exec(5), RuntimeDirectory=). Other users use the XDG base
// directories. Verbs that read look in the user's directory first, then in the system's, so
// that a user reaches the daemon of the host.

// Places finds the files of the user who runs this program.
type Places struct {
	Env func(string) string // reads an environment variable, as os.Getenv does
	UID int
}

const (
	SystemKey     = "/etc/achbridge/key"
	SystemCA      = "/etc/achbridge/ca"
	SystemConfig  = "/etc/achbridge/achbridge.yaml"
	SystemControl = "/run/achbridge/control.sock"
	SystemState   = "/var/lib/achbridge"
	SystemHub     = "/var/lib/achbridge-hub"
)

// KeyPath returns the path at which `key new` writes the key. Other commands read it there if it exists.
func (p Places) KeyPath() (string, error) {
	return keyPlace.of(p)
}

// CAPath returns the directory of the certificate authority.
func (p Places) CAPath() (string, error) {
	return caPlace.of(p)
}

// FindKey returns the key file to read: the user's if it exists, otherwise the system's if it
// exists, otherwise the path at which `key new` would write.
func (p Places) FindKey() (string, error) {
	own, err := p.KeyPath()
	return firstPresent(own, SystemKey), err
}

// findConfig returns the configuration file to read if the command line names none: the user's,
// otherwise the system's, or "" if neither exists.
func (p Places) findConfig() string {
	own, err := configPlace.of(p)
	if err != nil {
		own = SystemConfig
	}
	path := firstPresent(own, SystemConfig)
	_, err = os.Stat(path)
	somebodyElses := path != SystemConfig && errors.Is(err, fs.ErrPermission) // $HOME may be another user's
	if somebodyElses || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// controlPath returns the path of the control socket on which `run` listens. Without $XDG_RUNTIME_DIR, as under cron and
// su, it is in the state directory.
func (p Places) controlPath() (string, error) {
	if path, err := controlPlace.of(p); err == nil {
		return path, nil
	}
	return privateControlPlace.of(p)
}

// FindControl returns the control socket by which a command reaches the daemon: of this user, otherwise the system's.
func (p Places) FindControl() string {
	path := SystemControl
	for _, l := range []place{privateControlPlace, controlPlace} {
		if own, err := l.of(p); err == nil {
			path = firstPresent(own, path)
		}
	}
	return path
}

// UserControls returns the control sockets of other users' daemons that root can see; nil for another user.
func (p Places) UserControls() []string {
	if p.UID != 0 {
		return nil
	}
	return userControls("/")
}

func userControls(root string) (paths []string) {
	for _, pattern := range []string{"run/user/*/achbridge/control.sock", "home/*/.local/state/achbridge/control.sock"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // fails only for a wrong pattern
		paths = append(paths, found...)
	}
	return paths
}

// HubPath returns the directory of a hub.
func (p Places) HubPath() (string, error) {
	return hubPlace.of(p)
}

// place holds the locations of a file for root, for a service and for other users.
type place struct {
	system   string // for root
	service  string // environment variable with the directory that systemd made
	user     string // environment variable with the user's base directory
	fallback string // base directory below $HOME when that variable is not set
	file     string // name in our folder of the base directory; empty for the folder itself
}

var (
	keyPlace     = place{SystemKey, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "key"}
	caPlace      = place{SystemCA, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "ca"}
	configPlace  = place{SystemConfig, "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", ".config", "achbridge.yaml"}
	controlPlace = place{SystemControl, "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "", "control.sock"}
	// privateControlPlace takes the place of controlPlace if its variables are not set.
	privateControlPlace = place{SystemControl, "RUNTIME_DIRECTORY", "XDG_STATE_HOME", ".local/state", "control.sock"}

	statePlace = place{SystemState, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", ""}
	hubPlace   = place{SystemHub, "", "XDG_STATE_HOME", ".local/state", "hub"} // a hub service sets its directory explicitly
)

func (l place) of(p Places) (string, error) {
	if dir := p.Env(l.service); l.service != "" && filepath.IsAbs(dir) {
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

// KeyFile returns given, which is the path of the command line. If that is empty it returns the path that the environment
// sets, else the path that find returns.
func (p Places) KeyFile(given string, find func() (string, error)) (string, error) {
	if path := cmp.Or(given, p.Env(EnvName("key"))); path != "" {
		return path, nil
	}
	path, err := find()
	if err != nil {
		return "", ui.Usage(fmt.Errorf("key: no directory for it: %w", err), "name the file: --key FILE")
	}
	return path, nil
}

// Absolute returns path as an absolute path; "" stays "".
func Absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path
}

// SocketFor returns given, the path of the command line, or if empty the default path of `run`. No other user can enter
// the directory of the default path.
func (p Places) SocketFor(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	path, err := p.controlPath()
	if err != nil {
		return "", ui.Usage(fmt.Errorf("control socket: no directory for it: %w", err), "name one: --control PATH, or ACHBRIDGE_CONTROL")
	}
	if private, err := privateControlPlace.of(p); err != nil || path != private || p.UID == 0 {
		return path, nil // systemd and login sessions make the directory
	}
	dir := filepath.Dir(path)
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // it may exist, with the state of earlier daemons
	}
	if err != nil {
		return "", ui.Failure(fmt.Errorf("control socket %s: %w", path, err), "name another: --control PATH, or ACHBRIDGE_CONTROL")
	}
	return path, nil
}

// MakeKeyFolder makes the directory of path if that is where `key new` writes by default. Any
// other has to be there: who named it may have mistyped it.
func (p Places) MakeKeyFolder(path string) error {
	return p.makeFolder(keyPlace, path, "key", 0o700)
}

// MakeControlFolder is MakeKeyFolder for the control socket.
func (p Places) MakeControlFolder(path string) error {
	return p.makeFolder(controlPlace, path, "control socket", 0o755)
}

func (p Places) makeFolder(usual place, path, what string, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	missing := MissingFolder(what+" "+path, dir)
	if missing == nil {
		return nil
	}
	if own, err := usual.of(p); err != nil || Absolute(dir) != filepath.Dir(own) {
		return missing
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return ui.Failure(fmt.Errorf("%s %s: %w", what, path, err), "choose another place for it")
	}
	return nil
}

// MissingFolder returns an error if the directory dir for a new file does not exist. Other
// problems of dir are left to the write itself.
func MissingFolder(what, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return ui.Failure(fmt.Errorf("%s: no directory %s", what, dir), "mkdir -p "+dir)
	}
	return nil
}

// StateDir returns given, the state directory of the configuration, or if empty the default.
func (p Places) StateDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return statePlace.of(p)
}

// StateFile returns the path of a file in the state directory; "" if there is no state
// directory.
func (p Places) StateFile(given, file string) string {
	dir, err := p.StateDir(given)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, file)
}
