// Package need skips tests: each function skips the test if the machine lacks something,
// and names how to get it. With ACHBRIDGE_NO_SKIP=1, as in CI, a test fails instead if
// the missing thing can be installed.
package need

import (
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"testing"
)

// IsLong reports whether this is the long run, with ACHBRIDGE_LONG=1, which .ci/run sets.
func IsLong() bool { return os.Getenv("ACHBRIDGE_LONG") == "1" }

// Long skips the test except in the long run. Use it in tests that take long or measure real time.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong() {
		t.Skip("long: set ACHBRIDGE_LONG=1")
	}
}

// LongOr returns long in the long run, otherwise everyday.
func LongOr[T any](long, everyday T) T {
	if IsLong() {
		return long
	}
	return everyday
}

// NoRace skips the test under the race detector. Use it to count allocations with a sync.Pool.
func NoRace(t testing.TB) {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("a sync.Pool forgets at random under -race: run it without")
	}
}

// Processes skips a test that starts processes of the program if -short is set, as it is
// for the race detector, since the processes are built without the detector.
func Processes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes: run without -short")
	}
}

// Program returns the path of a program, or calls Missing. debian is the Debian package that has it.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+": not installed; it is in Debian's package "+debian)
	}
	return path
}

// Missing skips the test because the machine lacks something that could be installed.
// why names it and how to get it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}
