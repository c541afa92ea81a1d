package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/need"
)

// tree makes files, given as texts by path, below a new directory, and returns the directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRemoveIPCIsParsedLikeLogind(t *testing.T) {
	const running = "run/systemd/users/1000"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no logind":           {nil, false},
		"default":             {map[string]string{running: ""}, true},
		"commented":           {map[string]string{running: "", "etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"}, true},
		"off":                 {map[string]string{running: "", "etc/systemd/logind.conf": "[Login]\nRemoveIPC = no\n"}, false},
		"off in a part":       {map[string]string{running: "", "usr/lib/systemd/logind.conf.d/50-a.conf": "[Login]\nRemoveIPC=false"}, false},
		"on in a later part":  {map[string]string{running: "", "etc/systemd/logind.conf.d/10-a.conf": "RemoveIPC=no", "usr/lib/systemd/logind.conf.d/50-b.conf": "RemoveIPC=yes"}, true},
		"the part of /etc is": {map[string]string{running: "", "usr/lib/systemd/logind.conf.d/50-a.conf": "RemoveIPC=yes", "etc/systemd/logind.conf.d/50-a.conf": "RemoveIPC=no"}, false},
	} {
		if got := removesIPC(tree(t, c.files)); got != c.want {
			t.Errorf("%s: removesIPC: got %v, want %v", name, got, c.want)
		}
	}
}

func TestDoctorWarnsOfChannelsRemovedAtLogout(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "not root: a channel cannot be given to another user")
	}
	p := newPatient(t)
	ch, err := p.Dir.Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ch.Close()
	root := tree(t, map[string]string{"run/systemd/users/12345": ""})
	if got := ownersWhoLogOut(p.Dir, root); len(got) != 0 {
		t.Errorf("of root: got %v, want nobody", got)
	}
	if err := os.Chown(p.Dir.Path("imu"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got := ownersWhoLogOut(p.Dir, root); len(got) != 1 || got[0] != "12345" {
		t.Errorf("of an ordinary user: got %v, want user 12345", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/systemd/linger/12345"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := ownersWhoLogOut(p.Dir, root); len(got) != 0 {
		t.Errorf("with linger: got %v, want nobody", got)
	}
}

// doctor ignores mappings of its own process, so this test reads its own maps as those of another process.
func TestRemovedChannelIsFoundInProcessMaps(t *testing.T) {
	p := newPatient(t)
	created, err := p.Dir.Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	created.Close()              // created has mapped the file under a temporary name
	ch, err := p.Dir.Open("imu") // ch maps the file under its final name
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := p.Dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	got := removedIn(p.Dir, mappedFiles(text))
	if len(got) != 1 || got[0] != "imu" {
		t.Errorf("removedIn: got %v, want imu", got)
	}
	var st unix.Stat_t
	if unix.Stat(p.Dir.Path("imu"), &st) == nil || strings.Contains(checkRemoved(t.Context(), p).Text, "imu") {
		t.Error("doctor reports a mapping of its own process, want only those of others")
	}
}
