package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestFlagsTakeThePlaceOfTheFilesKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "name: fromfile\nlisten: ':1'\nmirror: ['krang/*', 'atlas/*']\naccept: [goal]\ndiscovery: off\nlog: debug\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := defaultSettings()
	cmd := &cobra.Command{}
	s.flags(cmd)
	if err := cmd.ParseFlags([]string{"--name", "fromflag", "--mirror", "robot/imu", "--discovery", "auto"}); err != nil {
		t.Fatal(err)
	}
	if err := s.underlay(path, cmd.Flags()); err != nil {
		t.Fatal(err)
	}

	if s.Name != "fromflag" || s.Listen != ":1" || s.Discovery != discoveryAuto || s.Log != slog.LevelDebug {
		t.Errorf("got %+v, want name and discovery of the flags, the rest of the file", s)
	}
	if !slices.Equal(s.Mirror, []string{"robot/imu"}) || !slices.Equal(s.Accept, []string{"goal"}) || s.Export != nil {
		t.Errorf("got mirror %v, accept %v, export %v, want the flag's, the file's, none", s.Mirror, s.Accept, s.Export)
	}
}

func TestEveryKeyOfTheFileIsAFlag(t *testing.T) {
	s := defaultSettings()
	cmd := &cobra.Command{}
	s.flags(cmd)
	for _, key := range configKeys() {
		flag := map[string]string{"peers": "peer", "interfaces": "interface"}[key]
		if cmd.Flags().Lookup(firstOf(flag, key)) == nil {
			t.Errorf("key %s has no flag", key)
		}
	}
}

func TestHostNameIsUsableInAchNames(t *testing.T) {
	for system, want := range map[string]string{
		"krang": "krang", "krang.lab.example": "krang", "my robot": "my-robot", "": "", "übung": "--bung",
	} {
		if got := hostName(system); got != want {
			t.Errorf("hostName(%q) = %q, want %q", system, got, want)
		}
	}
}
