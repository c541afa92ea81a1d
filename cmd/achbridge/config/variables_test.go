package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	got := UnknownVariables([]string{
		"ACHBRIDGE_LISTN=:1", "ACHBRIDGE_MIRROR=krang/*", "ACHBRIDGE_COLOUR=no", // wrong
		"ACHBRIDGE_LISTEN=:1", "ACHBRIDGE_CONFIG=a", "ACHBRIDGE_KEY_TEXT=a", "ACHBRIDGE_SHM=a", "ACHBRIDGE_LONG=1", "ACHBRIDGE_TYPO=", "HOME=/",
		"ACHBRIDGE_SERVICE_HOST=10.0.0.1", "ACHBRIDGE_PORT_8076_UDP=udp://10.0.0.1:8076",
	})
	want := []string{
		"ACHBRIDGE_COLOUR: unknown variable; man achbridge-run lists those that exist",
		"ACHBRIDGE_LISTN: unknown variable; did you mean ACHBRIDGE_LISTEN?",
		"ACHBRIDGE_MIRROR: not used; mirror is set in the configuration file or by a flag",
	}
	if !slices.Equal(got, want) {
		t.Errorf("UnknownVariables() = %q, want %q", got, want)
	}
}

// Commands that the tests start must not warn about the tests' variables.
func TestUnknownVariablesIgnoresThoseOfTests(t *testing.T) {
	read := regexp.MustCompile(`(?:\$\{?|")(ACHBRIDGE_[A-Z_]*[A-Z])(?:"|=|:-|\b\})`)
	root := "../../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isSource := slices.Contains([]string{".go", ".sh"}, filepath.Ext(path)) || path == filepath.Join(root, ".ci/run")
		if d.IsDir() || !isSource || strings.HasSuffix(path, "config/variables_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			for _, warning := range UnknownVariables([]string{m[1] + "=1"}) {
				t.Errorf("%s: %s", path, warning)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
