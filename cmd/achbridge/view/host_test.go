package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func TestUnreadableMirrorIsFixedByModeAndGroupOfSocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files to another group")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "control.sock")
	for name, test := range map[string]struct {
		mode    fs.FileMode
		group   int
		control string
		want    []string
	}{
		"group may not open it":   {0o644, 4243, socket, []string{"file_mode: 0660 in the mirror's rule", "sudo chmod 0660", "usermod -aG 4243 $USER"}},
		"group may open it":       {0o660, 4243, socket, []string{"join 4243, the group of the daemon's control socket", "file_mode: 0666"}},
		"daemon of group root":    {0o660, 0, socket, []string{"let all users open it: write file_mode: 0666", "sudo chmod 0666"}},
		"no daemon owns the file": {0o644, 4243, filepath.Join(dir, "none.sock"), []string{"chmod g+rw", "file_mode: 0660"}},
	} {
		h := Host{Dir: localach.Dir(dir), Places: config.Places{Env: func(name string) string {
			return map[string]string{config.EnvName("control"): test.control}[name]
		}}}
		for path, mode := range map[string]fs.FileMode{socket: 0o660, h.Dir.Path("robot.imu"): test.mode} {
			if err := os.WriteFile(path, nil, mode); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chown(path, -1, test.group), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
		fix := ui.Fix(h.ChannelError("robot.imu", fmt.Errorf("channel robot.imu: %w", fs.ErrPermission)))
		for _, want := range test.want {
			if !strings.Contains(fix, want) {
				t.Errorf("%s: fix = %q, want it to contain %q", name, fix, want)
			}
		}
	}
}
