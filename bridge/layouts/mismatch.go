package layouts

import (
	"errors"
	"io"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
)

// SizeCheck compares the newest frame of a channel with the channel's layout when a user asks for the status. Frames are
// not checked when they are sent or received.
type SizeCheck struct {
	Fit    *layout.Fit
	From   status.TypeSource
	Newest func(buf []byte) (int, error) // copies the newest frame, as localach.Reader.TryNext does
}

// maxCopied is the size in bytes of the largest frame that is copied to check its content.
const maxCopied = 64 << 10

// Mismatch returns how the newest frame does not match the layout, or nil if it matches or cannot be read now. It copies the frame
// only if the check needs its bytes, as for a tail with a count or for a protobuf message.
func (c SizeCheck) Mismatch() *status.Mismatch {
	size, err := c.Newest(nil)
	if !errors.Is(err, io.ErrShortBuffer) {
		return nil
	}
	var frame []byte
	if c.Fit.ByContent() {
		if size > maxCopied {
			return nil
		}
		frame = make([]byte, size)
		if size, err = c.Newest(frame); err != nil {
			return nil
		}
	}
	if err := c.Fit.Check(size, frame[:min(size, len(frame))]); err != nil {
		return &status.Mismatch{Why: err.Error(), TypeFrom: c.From}
	}
	return nil
}
