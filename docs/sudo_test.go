package docs_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asRoot matches the beginning of a line that runs a program of this user as root. The tests are root.
var asRoot = regexp.MustCompile(`^sudo env "PATH=\S*\$PATH" `)

var (
	sudo = regexp.MustCompile(`\bsudo (\S+)[^` + "`" + `\n]*`)
	// needsRoot matches the command lines that fail without root. Programs of a developer are not on the PATH of sudo.
	needsRoot = regexp.MustCompile(`(?m)(^|` + "`" + `)(go run \./testnet/(versus|lab) |lab run |bash \.ci/run|bash packaging/vm\.sh|systemctl |sysctl |mount |adduser |chown /)`)
	// systemPrograms are in directories on the PATH of sudo. achbridge is, if its package is installed.
	systemPrograms = strings.Fields("achbridge adduser apt apt-get chown mount sysctl systemctl")
)

func TestLinesOfRootWorkWithSudo(t *testing.T) {
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range needsRoot.FindAllString(string(text), -1) {
			t.Errorf("%s: %q needs root: begin it with sudo", path, line)
		}
		for _, m := range sudo.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(systemPrograms, m[1]) && m[1] != "$(command" && !asRoot.MatchString(m[0]) {
				t.Errorf("%s: %q: sudo does not find %s; write sudo env \"PATH=$PATH\" %s", path, m[0], m[1], m[1])
			}
			if strings.ContainsAny(m[0], "<>|~") {
				t.Errorf("%s: %q: the shell of the user redirects and expands before sudo", path, m[0])
			}
		}
	}
}
