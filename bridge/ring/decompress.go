package ring

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"achbridge/wire"
)

// Decompressor decompresses frames that a peer has compressed. Not safe for concurrent use. The zero value is ready for use.
// It needs no close. It uses about as much memory as the largest frame and 512 KiB.
type Decompressor struct {
	buf  []byte
	zstd *zstd.Decoder // nil until it is needed
	head zstd.Header
}

// Decompress decompresses data into a frame, which is valid until the next call. rawSize is the frame's size as claimed by the
// sender. With CodecNone the frame is data, and rawSize is ignored. A frame larger than limit, or of another size than rawSize,
// is an error. Decompress never uses more memory than limit and 512 KiB, whatever data is.
func (d *Decompressor) Decompress(codec wire.Codec, rawSize, limit int, data []byte) (frame []byte, err error) {
	if codec == wire.CodecNone {
		rawSize = len(data)
	}
	if rawSize <= 0 || rawSize > limit {
		return nil, fmt.Errorf("frame of %d bytes: want 1 … %d", rawSize, limit)
	}
	switch codec {
	case wire.CodecNone:
	case wire.CodecS2:
		data, err = d.s2(rawSize, data)
	case wire.CodecZstd:
		data, err = d.zstandard(rawSize, data)
	default:
		err = fmt.Errorf("codec %d is not known", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("packed frame: %w", err)
	}
	return data, nil
}

func (d *Decompressor) s2(rawSize int, data []byte) ([]byte, error) {
	n, err := s2.DecodedLen(data)
	if err != nil {
		return nil, err
	}
	if n != rawSize {
		return nil, fmt.Errorf("s2 of %d bytes, want %d", n, rawSize)
	}
	return s2.Decode(d.room(rawSize), data)
}

// zstdSlack is the size of one block, with a margin. The decoder may write one block beyond the declared size before it
// returns the error. A buffer with that much spare room saves the decoder an allocation.
const zstdSlack = 128<<10 + 64

func (d *Decompressor) zstandard(rawSize int, data []byte) ([]byte, error) {
	if err := d.head.Decode(data); err != nil {
		return nil, err
	}
	if !d.head.HasFCS || d.head.FrameContentSize != uint64(rawSize) {
		return nil, fmt.Errorf("zstd of %d bytes, want %d", d.head.FrameContentSize, rawSize)
	}
	if !isOneFrame(&d.head, data) {
		return nil, fmt.Errorf("want one zstd frame of %d bytes and nothing else", len(data))
	}
	if d.zstd == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) // the options are wrong
		}
		d.zstd = decoder
	}
	raw, err := d.zstd.DecodeAll(data, d.room(rawSize+zstdSlack))
	if err != nil {
		return nil, err
	}
	if len(raw) != rawSize {
		return nil, fmt.Errorf("zstd became %d bytes, want %d", len(raw), rawSize)
	}
	return raw, nil
}

// isOneFrame reports whether data is exactly one zstd frame (RFC 8878, section 3.1.1). A decoder would also decode a second
// frame, and its output would grow.
func isOneFrame(h *zstd.Header, data []byte) bool {
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
func (d *Decompressor) room(n int) []byte {
	if cap(d.buf) < n {
		d.buf = nil // let it be freed before the larger one is allocated
		d.buf = make([]byte, n)
	}
	return d.buf[:0]
}
