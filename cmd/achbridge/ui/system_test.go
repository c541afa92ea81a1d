package ui

import (
	"io/fs"
	"testing"
)

func TestWhoMayOpenNamesUsersWithReadAndWrite(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o600: "programs of root and of 4242",
		0o660: "programs of root, of 4242 and of group 4243",
		0o060: "programs of root and of group 4243",
		0o646: "all programs",
		0o444: "programs of root",
	} {
		if got := WhoMayOpen(mode, 4242, 4243); got != want {
			t.Errorf("WhoMayOpen(%04o) = %q, want %q", mode, got, want)
		}
	}
}
