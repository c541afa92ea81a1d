package mirror

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// CauseOf returns the cause that the status reports for an error of a file or a channel.
func CauseOf(err error) status.Cause {
	switch {
	case errors.Is(err, errNoShare):
		return status.CauseShmShare
	case errors.Is(err, errNoRoom), errors.Is(err, unix.ENOSPC):
		return status.CauseShmFull
	case errors.Is(err, fs.ErrPermission):
		return status.CauseFileMode
	case errors.Is(err, localach.ErrBusy), errors.Is(err, localach.ErrWedged):
		return status.CauseReceiverSlow
	case errors.Is(err, localach.ErrAch1x):
		return status.CauseAch1x
	case errors.Is(err, localach.ErrAch32Bit):
		return status.CauseAch32Bit
	case errors.Is(err, localach.ErrForeign):
		return status.CauseOtherLibc
	case errors.Is(err, localach.ErrCorrupt), errors.Is(err, localach.ErrHalfCreated):
		return status.CauseCorrupt
	case errors.Is(err, stamps.ErrSize), errors.Is(err, stamps.ErrValue), errors.Is(err, stamps.ErrFormat):
		return status.CauseBadFrame
	case errors.Is(err, errFrameSize):
		return status.CauseFrameSize
	case errors.Is(err, errTooLarge):
		return status.CauseLimit
	}
	return status.CauseOther
}
