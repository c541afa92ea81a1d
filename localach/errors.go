package localach

import (
	"errors"
	"fmt"
)

// ErrCorrupt means that a channel's content cannot be trusted. More specific errors wrap it. After ErrReinitialised the channel
// can be opened again. After the others it has to be replaced.
var (
	ErrCorrupt       = errors.New("corrupt channel")
	ErrDirty         = fmt.Errorf("%w: a writer died inside put", ErrCorrupt)
	ErrTruncated     = fmt.Errorf("%w: the file is shorter than its header claims", ErrCorrupt)
	ErrReinitialised = fmt.Errorf("%w: initialised again while open: open it again", ErrCorrupt)
)

// Other errors of channels.
var (
	ErrHalfCreated = errors.New("channel only half created: its creator is slow, or died")
	ErrReplaced    = errors.New("another channel has this name now: open it again")
	ErrUnlinked    = errors.New("channel was removed while open")
	ErrHole        = errors.New("the frame was never put: it lies in a hole of the channel's file")
	ErrBusy        = errors.New("channel lock held by another process for more than 100 ms")
	ErrWedged      = errors.New("waking the channel's readers hangs: a process was killed while it waited for a frame")
	ErrTooLarge    = errors.New("frame larger than the channel")
	ErrMoved       = errors.New("another frame was put meanwhile")
	errEmpty       = errors.New("empty frame")
	ErrName        = errors.New("bad channel name: 1 to 63 of A-Z a-z 0-9 - _ . are allowed, not beginning with a dot")
	ErrGeometry    = errors.New("unusable geometry")
	ErrLocked      = errors.New("file locked by another process")
)
