package testnet_test

import (
	"os"
	"sync"
	"sync/atomic"

	"achbridge/testnet/hosts"
)

// programs builds achbridge and publisher once and returns their directory, which
// TestMain removes. On a machine without Go, ACHBRIDGE_PROGRAMS is a directory that
// has them.
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

// builtIn is the directory that programs has created.
var builtIn atomic.Pointer[string]
