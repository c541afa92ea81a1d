package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/ui"
)

func TestDefaultFilePaths(t *testing.T) {
	for _, c := range []struct {
		name                string
		UID                 int
		env                 map[string]string
		key, control, state string // empty means that an error is wanted
	}{
		{"root", 0, map[string]string{"HOME": "/root", "XDG_CONFIG_HOME": "/root/.config"}, SystemKey, SystemControl, SystemState},
		{"user", 1000, map[string]string{"HOME": "/home/ann", "XDG_RUNTIME_DIR": "/run/user/1000"},
			"/home/ann/.config/achbridge/key", "/run/user/1000/achbridge/control.sock", "/home/ann/.local/state/achbridge"},
		{"user with XDG", 1000, map[string]string{"HOME": "/home/ann", "XDG_CONFIG_HOME": "/cfg", "XDG_STATE_HOME": "/st"},
			"/cfg/achbridge/key", "/st/achbridge/control.sock", "/st/achbridge"},
		{"user under cron", 1000, map[string]string{"HOME": "/home/ann"},
			"/home/ann/.config/achbridge/key", "/home/ann/.local/state/achbridge/control.sock", "/home/ann/.local/state/achbridge"},
		{"user with nothing", 1000, nil, "", "", ""},
		{"service", 999, map[string]string{"HOME": "/nonexistent", "CONFIGURATION_DIRECTORY": "/etc/achbridge", "RUNTIME_DIRECTORY": "/run/achbridge", "STATE_DIRECTORY": "/var/lib/achbridge"},
			SystemKey, SystemControl, SystemState},
		{"service of root", 0, map[string]string{"RUNTIME_DIRECTORY": "/run/other"}, SystemKey, "/run/other/control.sock", SystemState},
		{"relative XDG", 1000, map[string]string{"XDG_CONFIG_HOME": "cfg"}, "", "", ""},
	} {
		a := Places{UID: c.UID, Env: func(k string) string { return c.env[k] }}
		for _, p := range []struct {
			what, want string
			place      func() (string, error)
		}{{"key", c.key, a.KeyPath}, {"control", c.control, a.controlPath}, {"state", c.state, func() (string, error) { return a.StateDir("") }}} {
			got, err := p.place()
			if got != p.want || (err != nil) != (p.want == "") {
				t.Errorf("%s, %s: got %q, %v, want %q", c.name, p.what, got, err, p.want)
			}
		}
	}
}

func TestOnlyDefaultDirectoriesAreCreated(t *testing.T) {
	home := t.TempDir()
	p := Places{UID: 1000, Env: func(k string) string {
		return map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run")}[k]
	}}
	for _, c := range []struct {
		usual func() (string, error)
		make  func(path string) error
	}{{p.KeyPath, p.MakeKeyFolder}, {p.controlPath, p.MakeControlFolder}} {
		other := filepath.Join(home, "nosuch", "x", "file")
		err := c.make(other)
		if err == nil || !strings.Contains(err.Error(), "no directory "+filepath.Dir(other)) || ui.Fix(err) != "mkdir -p "+filepath.Dir(other) {
			t.Errorf("got %v, fix %q, want the missing directory, and the command that makes it", err, ui.Fix(err))
		}
		usual, err := c.usual()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.make(usual); err != nil {
			t.Errorf("%s: got %v, want its directory made", usual, err)
		}
		if _, err := os.Stat(filepath.Dir(usual)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(home, "nosuch")); err == nil {
			t.Error("a directory that is not the default was made")
		}
	}
}

// A daemon that cron started is found from a login session, and the other way round.
func TestDaemonIsFoundWithAndWithoutRuntimeDirectory(t *testing.T) {
	home := t.TempDir()
	cron := Places{UID: 1000, Env: func(k string) string { return map[string]string{"HOME": home}[k] }}
	session := Places{UID: 1000, Env: func(k string) string {
		return map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run")}[k]
	}}
	if err := os.MkdirAll(filepath.Join(home, ".local/state/achbridge"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := cron.SocketFor("")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v, want a directory with mode 0700", info.Mode(), err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Places{"cron": cron, "session": session} {
		if got := p.FindControl(); got != path {
			t.Errorf("%s: got %s, want %s", name, got, path)
		}
	}
	own, err := session.SocketFor("")
	if err != nil || own != filepath.Join(home, "run/achbridge/control.sock") {
		t.Errorf("session: got %s, %v", own, err)
	}
}

func TestSocketsOfUsersAreFoundForRoot(t *testing.T) {
	root := t.TempDir()
	var want []string
	for _, dir := range []string{"run/user/1000/achbridge", "home/ann/.local/state/achbridge"} {
		path := filepath.Join(root, dir, "control.sock")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	if got := userControls(root); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Places{UID: 1000}).UserControls(); got != nil {
		t.Errorf("a user gets %q, want nothing", got)
	}
}
