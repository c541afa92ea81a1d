package ring

import (
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"achbridge/bridge/rule"
	"achbridge/wire"
)

// Compression decides for one subscription which frames are compressed, and by which codec. One goroutine at a time.
//
// CompressAuto takes the codec by which a frame reaches its reader soonest, from the time and the gain measured with recent
// frames and from the rate of the link:
//
//	uncompressed: 1/rate a byte; else: time to compress and to decompress + compressed size/rate
//
// A codec that does not pay is tried again after 16, 32 … 1024 frames, so that frames that are compressed already, such as JPEG
// images, cost next to nothing.
type Compression struct {
	Want rule.Compress

	compressor *Compressor          // Compress uses it
	now        func() time.Duration // measures Compress
	stats      [len(Codecs)]codecStats
	buf        []byte // of the last Compress
}

// Codecs are the codecs that frames can be compressed by.
var Codecs = [...]wire.Codec{wire.CodecS2, wire.CodecZstd}

// The smallest frames that are compressed, in bytes.
const (
	minWanted = 128      // where Zstandard is asked for
	minAuto   = 4 * 1024 // several packets
)

// minGain is the share of a frame that compression must save.
const minGain = 1.0 / 16

// NewCompression returns the decisions for one subscription. Compress uses compressor, and now to measure the time.
func NewCompression(want rule.Compress, compressor *Compressor, now func() time.Duration) Compression {
	return Compression{Want: want, compressor: compressor, now: now}
}

// Compress compresses frame where that is wanted, for a link of rate bytes a second (0: unknown). The result is frame itself
// with CodecNone, or valid until the next call. It blocks for 3 to 15 µs for 3 kB, milliseconds for 1 MB.
func (c *Compression) Compress(frame []byte, rate float64) ([]byte, wire.Codec) {
	codec := c.Plan(len(frame), rate)
	if codec == wire.CodecNone {
		return frame, codec
	}
	var worth bool
	begin := c.now()
	c.buf, worth = c.compressor.Compress(codec, c.buf, frame)
	result := Compressed{Took: c.now() - begin}
	if worth {
		result.Data = c.buf
	}
	c.Learn(codec, len(frame), result)
	if !worth {
		return frame, wire.CodecNone
	}
	return c.buf, codec
}

// Plan returns the codec for the next frame, of size bytes, for a link of rate bytes a second (0: unknown). Call it once for
// each frame, and Learn with the result.
func (c *Compression) Plan(size int, rate float64) wire.Codec {
	switch {
	case c.Want == rule.CompressZstd && size >= minWanted:
		return wire.CodecZstd
	case c.Want == rule.CompressAuto && size >= minAuto && rate > 0:
		return c.auto(rate)
	}
	return wire.CodecNone
}

// Learn records the result for a frame of size bytes that Plan wanted compressed.
func (c *Compression) Learn(codec wire.Codec, size int, result Compressed) {
	if i := slices.Index(Codecs[:], codec); i >= 0 {
		c.stats[i].add(size, result)
	}
}

func (c *Compression) auto(rate float64) wire.Codec {
	best, least := -1, 1/rate
	for i := range c.stats {
		if s := c.stats[i].perByte(rate); s < least {
			best, least = i, s
		}
	}
	for i := range c.stats {
		if i != best && c.stats[i].isDue() {
			return Codecs[i]
		}
	}
	if best < 0 {
		return wire.CodecNone
	}
	c.stats[best].use()
	return Codecs[best]
}

// codecStats are the results of one codec with recent frames.
type codecStats struct {
	samples   int     // 0: unknown, or not known any more
	ratio     float64 // compressed bytes a byte
	cost      float64 // seconds a byte, to compress
	untilDue  int     // frames until the codec is tried again
	lastPause int     // untilDue at first
}

// After how many frames a codec that is not in use is tried again.
const (
	firstPause = 16
	maxPause   = 1024
)

// perByte returns how many seconds a byte of a frame takes until it has left and is decompressed. Decompression counts as much
// as compression: it takes less for most frames, and more for those that are nearly empty, which gain the most.
func (s *codecStats) perByte(rate float64) float64 {
	if s.samples == 0 || s.ratio > 1-minGain {
		return math.Inf(1)
	}
	return 2*s.cost + s.ratio/rate
}

// isDue counts a frame for which the codec is not the best, and reports whether the codec is tried with it. That result then
// replaces older ones.
func (s *codecStats) isDue() bool {
	if s.untilDue--; s.untilDue > 0 {
		return false
	}
	s.lastPause = min(max(firstPause, 2*s.lastPause), maxPause)
	s.untilDue, s.samples = s.lastPause, 0
	return true
}

func (s *codecStats) use() { s.lastPause, s.untilDue = firstPause, firstPause }

// add weighs a new sample with an eighth, after the first eight.
func (s *codecStats) add(size int, result Compressed) {
	ratio := 1.0
	if result.Data != nil {
		ratio = float64(len(result.Data)) / float64(size)
	}
	s.samples = min(s.samples+1, 8)
	weight := 1 / float64(s.samples)
	s.ratio += weight * (ratio - s.ratio)
	s.cost += weight * (result.Took.Seconds()/float64(size) - s.cost)
}

// Compressor compresses single frames. Safe for concurrent use, but calls for Zstandard wait for each other: a caller that must
// not wait for another's large frame needs its own. It holds no goroutine and needs no close. It is no package variable, since
// tests in virtual time cannot share its Go channel.
type Compressor struct {
	zstd *zstd.Encoder // allocates its memory at the first use
}

// zstdWindow is the distance, in bytes, up to which a repetition is found. The encoder uses as much memory.
const zstdWindow = 1 << 20

// NewCompressor returns a compressor that uses the fastest level of Zstandard, with entropy coding even where nothing repeats.
// An image with the noise of a sensor has no repetitions at all: S2 gains nothing, Zstandard 17 % in 2.5 ms/MB.
func NewCompressor() *Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true),
		zstd.WithSingleSegment(true), // frames of every size declare it
		zstd.WithEncoderCRC(false))   // the transport's packets are authenticated
	if err != nil {
		panic(err) // the options are wrong
	}
	return &Compressor{zstd: e}
}

// Compress compresses frame into dst's memory, whose length does not matter, or into new memory if dst has too little. Use the
// result as the next dst, even if it is not worth it: then compression saves less than a 16th.
func (c *Compressor) Compress(codec wire.Codec, dst, frame []byte) (compressed []byte, worth bool) {
	switch codec {
	case wire.CodecS2:
		compressed = s2.Encode(dst[:cap(dst)], frame)
	case wire.CodecZstd:
		compressed = c.zstd.EncodeAll(frame, dst[:0])
	default:
		return dst, false
	}
	return compressed, float64(len(compressed)) <= (1-minGain)*float64(len(frame))
}
