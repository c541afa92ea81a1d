package testnet_test

import (
	"os"
	"sync"
	"sync/atomic"

	"achbridge/testnet/hosts"
)

// programs builds achbridge once and returns its directory, which TestMain removes. On a
// machine without Go, ACHBRIDGE_PROGRAMS is a directory that has it.
var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("ACHBRIDGE_PROGRAMS"); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "achbridge-programs-")
	if err != nil {
		return "", err
	}
	builtIn.Store(&dir)
	return dir, hosts.Build(dir, "achbridge/cmd/achbridge")
})

// builtIn is the directory that programs has created.
var builtIn atomic.Pointer[string]
