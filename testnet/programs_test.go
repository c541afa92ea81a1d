package testnet_test

import (
	"os"
	"sync"
	"sync/atomic"

	"achbridge/testnet/hosts"
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
	return dir, hosts.Build(dir, "achbridge/cmd/achbridge", "achbridge/testnet/publisher")
})

// builtIn is the directory that programs made.
var builtIn atomic.Pointer[string]
