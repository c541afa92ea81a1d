package ring

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"achbridge/wire"
)

func TestCompressionRoundTrip(t *testing.T) {
	c := NewCompressor()
	var u Decompressor
	for name, frame := range payloads() {
		for _, codec := range Codecs {
			for _, size := range []int{1, 128, 255, 256, 257, 1024, 1025, 66_000, 200_000, len(frame)} {
				frame := frame[:min(size, len(frame))]
				compressed, _ := c.Compress(codec, nil, frame)
				got, err := u.Decompress(codec, len(frame), len(frame), compressed)
				if err != nil || !bytes.Equal(got, frame) {
					t.Fatalf("%s, %d bytes, codec %d: got %d bytes, %v, want the frame", name, size, codec, len(got), err)
				}
			}
		}
	}
}

// rle returns a zstd frame that declares size bytes and decompresses to blocks × 128 KiB.
func rle(size uint32, blocks int) []byte {
	b := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, binary.LittleEndian.AppendUint32(nil, size)...)
	for i := range blocks {
		head := 128<<10<<3 | 1<<1
		if i == blocks-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	return b
}

func TestDecompressionBombsAreRefused(t *testing.T) {
	const limit = 1 << 20
	stream, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false))
	undeclared := stream.EncodeAll(make([]byte, 200), nil)
	pair := append(rle(128<<10, 1), rle(128<<10, 1)...)
	for name, c := range map[string]struct {
		codec wire.Codec
		size  int
		data  []byte
		want  string
	}{
		"declared beyond the limit": {wire.CodecS2, limit + 1, s2.Encode(nil, make([]byte, limit+1)), "1048577 bytes: want 1 … 1048576"},
		"as it is beyond the limit": {wire.CodecNone, 0, make([]byte, limit+1), "1048577 bytes: want 1 … 1048576"},
		"nothing":                   {wire.CodecS2, 0, s2.Encode(nil, nil), "0 bytes"},
		"below nothing":             {wire.CodecZstd, -1, rle(1, 1), "-1 bytes"},
		"s2 of another size":        {wire.CodecS2, 100, s2.Encode(nil, make([]byte, limit)), "s2 of 1048576 bytes, want 100"},
		"s2 of 4 GB":                {wire.CodecS2, 100, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, "s2 of 4294967295 bytes, want 100"},
		"zstd of another size":      {wire.CodecZstd, 100, rle(128<<10, 1), "zstd of 131072 bytes, want 100"},
		"zstd without a size":       {wire.CodecZstd, 200, undeclared, "want 200"},
		"zstd of more than it says": {wire.CodecZstd, 100, rle(100, 1), "packed frame"},
		"zstd of very much more":    {wire.CodecZstd, limit, rle(limit, 1<<16), "packed frame"},
		"zstd of less than it says": {wire.CodecZstd, limit, rle(limit, 7), "packed frame"},
		"zstd with a second frame":  {wire.CodecZstd, 128 << 10, pair, "want one zstd frame"},
		"zstd with something after": {wire.CodecZstd, 128 << 10, append(rle(128<<10, 1), 1), "want one zstd frame"},
		"zstd cut":                  {wire.CodecZstd, 256 << 10, rle(256<<10, 2)[:15], "want one zstd frame"},
		"zstd that is skipped":      {wire.CodecZstd, 100, []byte("\x50\x2a\x4d\x18\x01\x00\x00\x00x"), "want 100"},
		"a codec that is not known": {9, 100, make([]byte, 100), "codec 9"},
	} {
		t.Run(name, func(t *testing.T) {
			var u Decompressor
			var got []byte
			var err error
			if taken := memoryTaken(func() { got, err = u.Decompress(c.codec, c.size, limit, c.data) }); taken > limit+512<<10 {
				t.Errorf("took %d bytes of memory", taken)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %d bytes, %v, want an error with %q", len(got), err, c.want)
			}
			if _, err := u.Decompress(wire.CodecZstd, 128<<10, limit, rle(128<<10, 1)); err != nil {
				t.Errorf("afterwards a good frame gave %v", err)
			}
		})
	}
}

// memoryTaken returns how many bytes the process allocates while f runs.
func memoryTaken(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzUnpack(f *testing.F) {
	const limit = 1 << 20
	c := NewCompressor()
	for _, frame := range payloads() {
		for _, codec := range Codecs {
			compressed, _ := c.Compress(codec, nil, frame[:min(len(frame), 3000)])
			f.Add(byte(codec), min(len(frame), 3000), compressed)
		}
	}
	f.Add(byte(wire.CodecZstd), 100, rle(100, 3))
	f.Add(byte(wire.CodecZstd), 128<<10, append(rle(128<<10, 1), rle(100, 1)...))
	f.Fuzz(func(t *testing.T, codec byte, size int, data []byte) {
		var u Decompressor
		var got []byte
		var err error
		// The constant covers the decoder's own memory and errors.
		if taken := memoryTaken(func() { got, err = u.Decompress(wire.Codec(codec), size, limit, data) }); taken > limit+512<<10 {
			t.Errorf("took %d bytes of memory", taken)
		}
		if err == nil && wire.Codec(codec) != wire.CodecNone && len(got) != size {
			t.Errorf("got %d bytes, want %d", len(got), size)
		}
	})
}
