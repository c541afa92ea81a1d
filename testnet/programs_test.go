package testnet_test

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
)

// programs builds achbridge and publisher, once per run, and returns the
// directory where they are; TestMain removes it. ACHBRIDGE_PROGRAMS names one where
// they are already, on a machine without Go.
var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("ACHBRIDGE_PROGRAMS"); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "achbridge-programs-")
	if err != nil {
		return "", err
	}
	builtIn.Store(&dir)
	out, err := exec.Command("go", "build", "-o", dir, "achbridge/cmd/achbridge", "achbridge/testnet/publisher").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// builtIn is the directory that programs made.
var builtIn atomic.Pointer[string]
