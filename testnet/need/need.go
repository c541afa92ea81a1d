// Package need is how tests skip: each function says what the test needs, skips it
// where that is missing, and names how to get it. With ACHBRIDGE_NO_SKIP=1 (CI) what can
// be installed is no reason to skip, and the test fails instead.
package need

import (
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"testing"
)

// IsLong reports whether this is the long run: ACHBRIDGE_LONG=1, which .ci/run sets.
func IsLong() bool { return os.Getenv("ACHBRIDGE_LONG") == "1" }

// Long skips a test that takes long, or measures real time, outside the long run.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong() {
		t.Skip("long: set ACHBRIDGE_LONG=1")
	}
}

// LongOr returns long in the long run, else everyday.
func LongOr[T any](long, everyday T) T {
	if IsLong() {
		return long
	}
	return everyday
}

// NoRace skips a test of allocations where memory is kept in a sync.Pool.
func NoRace(t testing.TB) {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("a sync.Pool forgets at random under -race: run it without")
	}
}

// Processes skips a test that starts processes of the program: with -short, which is
// for the race detector, they would not be built with it.
func Processes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes: run without -short")
	}
}

// Program returns the path of a program. debian is the package that has it.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+": not installed; it is in Debian's package "+debian)
	}
	return path
}

// Missing skips the test because the machine lacks something that could be installed:
// why says what, and how to get it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}
