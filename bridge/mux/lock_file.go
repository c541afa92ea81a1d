package mux

import (
	"errors"
	"fmt"
	"os"

	"achbridge/localach"
)

// lockFile locks the output of a mux, so that no other process runs a mux with it. The file stays in the channel
// directory.
func lockFile(dir localach.Dir, output string) (*os.File, error) {
	f, err := dir.LockFile(".achbridge.mux-"+output, 0o600)
	switch {
	case errors.Is(err, localach.ErrLocked):
		return nil, fmt.Errorf("%s: another process runs a mux with this output; end it, or choose another output", output)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be locked: %w; remove this file, which another user has made, or choose another output", output, err)
	}
	return f, nil
}
