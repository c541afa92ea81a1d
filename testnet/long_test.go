package testnet_test

import (
	"os"
	"slices"
	"testing"
)

// isLong tells whether this is the long run, for ACHBRIDGE_LONG=1.
func isLong() bool { return os.Getenv("ACHBRIDGE_LONG") == "1" }

// long picks what the long run does, or what is done every day.
func long[T any](stress, normal T) T {
	if isLong() {
		return stress
	}
	return normal
}

// realHosts skips a test that starts real daemons where -short leaves them out: for
// the race detector, with which they are not built.
func realHosts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("emulated hosts: run without -short")
	}
}

// longRun skips a test that is not for every day. It runs all the same while one of the
// variables is set that say how much of it there is to be.
func longRun(t *testing.T, variables ...string) {
	t.Helper()
	asked := slices.ContainsFunc(variables, func(name string) bool { return os.Getenv(name) != "" })
	if !isLong() && !asked {
		t.Skip("long: set ACHBRIDGE_LONG=1")
	}
}
