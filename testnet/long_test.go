package testnet_test

import (
	"os"
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

// longRun skips a test that is not for every day.
func longRun(t *testing.T) {
	t.Helper()
	if !isLong() {
		t.Skip("long: set ACHBRIDGE_LONG=1")
	}
}
