package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"achbridge/wire"
)

const (
	// Before is the number of bytes before the data in a sealed frame.
	Before = 62

	version       = 1
	tagSize       = 16
	signatureSize = 64

	signedBit    = 0x01
	lastValueBit = 0x02
	flagBits     = signedBit | lastValueBit
	codecShift   = 5
)

// Frame is one frame of a channel.
type Frame struct {
	Epoch     uint64        // epoch of the channel
	Seq       uint64        // the origin's sequence number, from 1
	Captured  time.Duration // time since the origin's node started; 0 means unknown
	LastValue bool          // last-value delivery: the ring's newest frame, which may be put past its budget
	Codec     wire.Codec    // codec of Data
	RawSize   int           // bytes of the frame before compression; 0 with wire.CodecNone
	Data      []byte        // not empty
}

// header holds the fields before the ciphertext that are not in Frame.
type header struct {
	signed  bool
	key     ID
	counter uint64
	node    [16]byte
}

var errShort = errors.New("sealed frame: cut short")

// check returns an error for a frame that cannot be sealed.
func (f *Frame) check() error {
	switch {
	case f.Seq == 0:
		return errors.New("seq: 0")
	case f.Captured < 0:
		return fmt.Errorf("captured: %d ns", f.Captured)
	case f.Codec > wire.CodecZstd:
		return fmt.Errorf("codec: %d is unknown", f.Codec)
	case f.Codec == wire.CodecNone && f.RawSize != 0,
		f.Codec != wire.CodecNone && (f.RawSize < 1 || f.RawSize > wire.MaxFrame):
		return fmt.Errorf("raw size: %d with codec %d", f.RawSize, f.Codec)
	case len(f.Data) < 1 || len(f.Data) > wire.MaxFrame:
		return fmt.Errorf("data: %d bytes, want 1 … %d", len(f.Data), wire.MaxFrame)
	}
	return nil
}

// appendHeader appends the header of Before bytes.
func appendHeader(dst []byte, h header, f *Frame) []byte {
	flags := byte(f.Codec) << codecShift
	if h.signed {
		flags |= signedBit
	}
	if f.LastValue {
		flags |= lastValueBit
	}
	dst = append(dst, version, flags)
	dst = append(dst, h.key[:]...)
	dst = binary.BigEndian.AppendUint64(dst, h.counter)
	dst = append(dst, h.node[:]...)
	dst = binary.BigEndian.AppendUint64(dst, f.Epoch)
	dst = binary.BigEndian.AppendUint64(dst, f.Seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Captured))
	return binary.BigEndian.AppendUint32(dst, uint32(f.RawSize))
}

// parse parses a sealed frame without decrypting it: Data is the ciphertext and the tag.
func parse(b []byte) (h header, f Frame, signature []byte, err error) {
	if len(b) < Before {
		return h, f, nil, errShort
	}
	flags := b[1]
	h.signed, f.LastValue, f.Codec = flags&signedBit != 0, flags&lastValueBit != 0, wire.Codec(flags>>codecShift)
	h.key, h.counter, h.node = ID(b[2:]), binary.BigEndian.Uint64(b[10:]), [16]byte(b[18:])
	f.Epoch, f.Seq = binary.BigEndian.Uint64(b[34:]), binary.BigEndian.Uint64(b[42:])
	captured := binary.BigEndian.Uint64(b[50:])
	f.Captured = time.Duration(captured)
	f.RawSize = int(binary.BigEndian.Uint32(b[58:]))
	end := len(b)
	if h.signed {
		end -= signatureSize
	}
	if end < Before+tagSize+1 {
		return h, f, nil, errShort
	}
	signature = b[end:]
	f.Data = b[Before : end-tagSize : end]
	switch {
	case b[0] != version:
		err = fmt.Errorf("version %d, want %d", b[0], version)
	case flags&^(flagBits|7<<codecShift) != 0:
		err = fmt.Errorf("flags: %#02x", flags)
	case h.counter == 0:
		err = errors.New("counter: 0")
	case captured > math.MaxInt64:
		err = fmt.Errorf("captured: %d ns", captured)
	default:
		err = f.check()
	}
	if err != nil {
		err = fmt.Errorf("sealed frame: %w", err)
	}
	f.Data = f.Data[:len(f.Data)+tagSize]
	return h, f, signature, err
}

// KeyOf returns the key id in a sealed frame. The id is not authenticated.
func KeyOf(b []byte) (ID, error) {
	h, _, _, err := parse(b)
	return h.key, err
}
