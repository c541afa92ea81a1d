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

// Compression decides for one subscription which frames are compressed, and by which codec. Not safe for concurrent use.
//
// CompressAuto chooses the codec with which a frame reaches its reader soonest. It uses the time and the ratio measured with
// recent frames, and the rate of the link:
//
//	uncompressed: 1/rate a byte; compressed: time to compress and to decompress + compressed size/rate
//
// A codec that does not pay is tried again after 16, 32 … 1024 frames. So frames that are compressed already, such as JPEG
// images, cost almost nothing.
type Compression struct {
	Want rule.Compress

	compressor *Compressor          // used by Compress
	now        func() time.Duration // clock for the time that Compress takes
	stats      [len(Codecs)]codecStats
	buf        []byte // result of the last Compress
}

// Codecs are the codecs that frames can be compressed by.
var Codecs = [...]wire.Codec{wire.CodecS2, wire.CodecZstd}

// The smallest frames that are compressed, in bytes.
const (
	minWanted = 128      // for CompressZstd
	minAuto   = 4 * 1024 // for CompressAuto: several packets
)

// minGain is the minimum share of a frame's size that compression must save.
const minGain = 1.0 / 16

// NewCompression returns the Compression of one subscription. Compress uses compressor, and now to measure the time.
func NewCompression(want rule.Compress, compressor *Compressor, now func() time.Duration) Compression {
	return Compression{Want: want, compressor: compressor, now: now}
}

// Compress compresses frame if Plan chooses a codec for a link of rate bytes a second (0 means unknown). The result is frame
// itself with CodecNone, or valid until the next call. It blocks for 3 to 15 µs for 3 kB, milliseconds for 1 MB.
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

// Plan returns the codec for the next frame, of size bytes, on a link of rate bytes a second (0 means unknown). Call it once
// for each frame, and Learn with the result.
func (c *Compression) Plan(size int, rate float64) wire.Codec {
	switch {
	case c.Want == rule.CompressZstd && size >= minWanted:
		return wire.CodecZstd
	case c.Want == rule.CompressAuto && size >= minAuto && rate > 0:
		return c.auto(rate)
	}
	return wire.CodecNone
}

// Learn records the result for a frame of size bytes for which Plan returned a codec.
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
	samples   int     // at most 8; 0 means that ratio and cost are unknown or outdated
	ratio     float64 // compressed size divided by size
	cost      float64 // time to compress, seconds a byte
	untilDue  int     // frames until the codec is tried again
	lastPause int     // initial value of untilDue after the last trial or use
}

// Number of frames after which a codec that is not in use is tried again.
const (
	firstPause = 16
	maxPause   = 1024
)

// perByte returns the seconds that a byte of a frame takes to be compressed, sent and decompressed. Decompression counts as
// much as compression. It takes less for most frames, and more for nearly empty ones, which gain the most.
func (s *codecStats) perByte(rate float64) float64 {
	if s.samples == 0 || s.ratio > 1-minGain {
		return math.Inf(1)
	}
	return 2*s.cost + s.ratio/rate
}

// isDue counts a frame for which the codec is not the best, and reports whether to try the codec with this frame. It then
// discards older results.
func (s *codecStats) isDue() bool {
	if s.untilDue--; s.untilDue > 0 {
		return false
	}
	s.lastPause = min(max(firstPause, 2*s.lastPause), maxPause)
	s.untilDue, s.samples = s.lastPause, 0
	return true
}

func (s *codecStats) use() { s.lastPause, s.untilDue = firstPause, firstPause }

// add adds a sample to the averages. Its weight is an eighth, after the first eight samples.
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

// Compressor compresses single frames. Safe for concurrent use, but calls for Zstandard wait for each other. A caller that must
// not wait for another's large frame needs its own Compressor. It has no goroutine and needs no close. It is not a package
// variable, since tests in virtual time cannot share its Go channel.
type Compressor struct {
	zstd *zstd.Encoder // allocates its memory on first use
}

// zstdWindow is the distance, in bytes, up to which repetitions are found. The encoder uses the same amount of memory.
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

// Compress compresses frame into dst's memory, whose length is ignored, or into new memory if dst has too little. worth is
// false if compression saves less than a 16th. Use the result as the next dst in both cases.
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
