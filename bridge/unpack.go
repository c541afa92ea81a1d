package bridge

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"achbridge/wire"
)

// unpacker undoes what a peer's compressor did. One goroutine at a time. The zero
// value works; it holds no goroutine, and needs no end: its memory, about the
// largest frame and 512 KiB, goes with it.
type unpacker struct {
	buf  []byte
	zstd *zstd.Decoder // nil until it is needed
	head zstd.Header
}

// unpack returns the frame of rawSize bytes that data holds, as its sender says;
// it is valid until the next call. With CodecNone it is data, and rawSize does not
// matter. A frame larger than limit is refused, and so is data that would become
// another size, before memory is taken for it: whatever data is, no more than limit
// and 512 KiB are taken.
func (u *unpacker) unpack(codec wire.Codec, rawSize, limit int, data []byte) (frame []byte, err error) {
	if codec == wire.CodecNone {
		rawSize = len(data)
	}
	if rawSize <= 0 || rawSize > limit {
		return nil, fmt.Errorf("frame of %d bytes: want 1 … %d", rawSize, limit)
	}
	switch codec {
	case wire.CodecNone:
	case wire.CodecS2:
		data, err = u.unpackS2(rawSize, data)
	case wire.CodecZstd:
		data, err = u.unpackZstd(rawSize, data)
	default:
		err = fmt.Errorf("codec %d is not known", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("packed frame: %w", err)
	}
	return data, nil
}

func (u *unpacker) unpackS2(rawSize int, data []byte) ([]byte, error) {
	n, err := s2.DecodedLen(data)
	if err != nil {
		return nil, err
	}
	if n != rawSize {
		return nil, fmt.Errorf("s2 of %d bytes, want %d", n, rawSize)
	}
	return s2.Decode(u.room(rawSize), data)
}

// zstdSlack is more than the decoder can write beyond the declared size before it
// notices: a block. With that much room it never takes memory of its own for it.
const zstdSlack = 128<<10 + 64

func (u *unpacker) unpackZstd(rawSize int, data []byte) ([]byte, error) {
	if err := u.head.Decode(data); err != nil {
		return nil, err
	}
	if !u.head.HasFCS || u.head.FrameContentSize != uint64(rawSize) {
		return nil, fmt.Errorf("zstd of %d bytes, want %d", u.head.FrameContentSize, rawSize)
	}
	if !oneFrame(&u.head, data) {
		return nil, fmt.Errorf("want one zstd frame of %d bytes and nothing beside it", len(data))
	}
	if u.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) // the options are wrong
		}
		u.zstd = d
	}
	raw, err := u.zstd.DecodeAll(data, u.room(rawSize+zstdSlack))
	if err != nil {
		return nil, err
	}
	if len(raw) != rawSize {
		return nil, fmt.Errorf("zstd became %d bytes, want %d", len(raw), rawSize)
	}
	return raw, nil
}

// oneFrame reports whether data is a single zstd frame to its end (RFC 8878,
// section 3.1.1): a decoder goes on with the next one, and its output grows.
func oneFrame(h *zstd.Header, data []byte) bool {
	rest := data[h.HeaderSize:]
	for last := false; !last; {
		if len(rest) < 3 {
			return false
		}
		block := int(rest[0]) | int(rest[1])<<8 | int(rest[2])<<16
		size := block >> 3
		if block>>1&3 == 1 {
			size = 1 // one byte, repeated
		}
		if len(rest)-3 < size {
			return false
		}
		last, rest = block&1 != 0, rest[3+size:]
	}
	return len(rest) == 0 || h.HasCheckSum && len(rest) == 4
}

// room returns an empty buffer for n bytes.
func (u *unpacker) room(n int) []byte {
	if cap(u.buf) < n {
		u.buf = nil // before the larger one is taken
		u.buf = make([]byte, n)
	}
	return u.buf[:0]
}
