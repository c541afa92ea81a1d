package hosts

import (
	"errors"
	"io/fs"
	"os"
)

// TB is the part of testing.TB that StartTest needs.
type TB interface {
	Helper()
	Skip(...any)
	Fatal(...any)
	Cleanup(func())
}

// StartTest starts a lab that ends with the test. If the machine or the user cannot
// have one, it skips the test and suggests a fix. With ACHBRIDGE_NO_SKIP=1 it skips
// the test only on a machine without TAP devices. The package's TestMain must call
// Main first.
func StartTest(t TB, c Config) *Lab {
	t.Helper()
	if err := Permitted(); err != nil {
		if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
