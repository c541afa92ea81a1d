package bridge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"achbridge/bridge/rule"
	"achbridge/wire"
)

// packer decides for one subscription which frames are made smaller on their way
// to the peer, and how. One goroutine at a time.
//
// CompressAuto takes the way by which a frame is sooner at its reader, from the
// time and the gain measured with recent frames and from the rate of the link:
//
//	without: 1/rate a byte; with: time to pack and to unpack + packed size/rate
//
// A way that does not pay is tried again after 16, 32 … 1024 frames, so that
// frames that are compressed already, such as JPEG images, cost next to nothing.
type packer struct {
	want   rule.Compress
	with   *compressor          // pack's
	now    func() time.Duration // pack's, to see how long it takes
	trials [len(codecs)]trial
	buf    []byte // what pack made last
}

var codecs = [...]wire.Codec{wire.CodecS2, wire.CodecZstd}

// The smallest frames that are compressed, in bytes.
const (
	leastWanted = 128      // where S2 or Zstd is asked for
	leastAuto   = 4 * 1024 // several packets
)

// leastGain is the part of a frame that packing has to save.
const leastGain = 1.0 / 16

// form is a frame made smaller.
type form struct {
	data []byte        // nil: not worth it, the frame goes as it is
	took time.Duration // to make it, or to find that it is not worth it
}

// pack makes frame smaller where that is wanted, for a link that carries rate
// bytes a second (0: not known). What it returns is frame itself with CodecNone, or
// is valid until the next call. It blocks for the time it takes: 3 to 15 µs for
// 3 kB, milliseconds for 1 MB.
func (p *packer) pack(frame []byte, rate float64) ([]byte, wire.Codec) {
	codec := p.plan(len(frame), rate)
	if codec == wire.CodecNone {
		return frame, codec
	}
	var worth bool
	begin := p.now()
	p.buf, worth = p.with.compress(codec, p.buf, frame)
	f := form{took: p.now() - begin}
	if worth {
		f.data = p.buf
	}
	p.learn(codec, len(frame), f)
	if !worth {
		return frame, wire.CodecNone
	}
	return p.buf, codec
}

// plan says how the next frame, of size bytes, is to be packed for a link that
// carries rate bytes a second (0: not known). To be asked once a frame, as it
// counts them; what came of it is to be told to learn.
func (p *packer) plan(size int, rate float64) wire.Codec {
	switch {
	case p.want == rule.CompressS2 && size >= leastWanted:
		return wire.CodecS2
	case p.want == rule.CompressZstd && size >= leastWanted:
		return wire.CodecZstd
	case p.want == rule.CompressAuto && size >= leastAuto && rate > 0:
		return p.auto(rate)
	}
	return wire.CodecNone
}

// learn records what came of a frame of size bytes that plan wanted packed.
func (p *packer) learn(codec wire.Codec, size int, f form) {
	if i := slices.Index(codecs[:], codec); i >= 0 {
		p.trials[i].add(size, f)
	}
}

func (p *packer) auto(rate float64) wire.Codec {
	best, least := -1, 1/rate
	for i := range p.trials {
		if s := p.trials[i].perByte(rate); s < least {
			best, least = i, s
		}
	}
	for i := range p.trials {
		if i != best && p.trials[i].due() {
			return codecs[i]
		}
	}
	if best < 0 {
		return wire.CodecNone
	}
	p.trials[best].inUse()
	return codecs[best]
}

// trial is what one codec made of recent frames.
type trial struct {
	samples int     // 0: not known, or not known any more
	ratio   float64 // packed bytes a byte
	cost    float64 // seconds a byte, to pack
	wait    int     // frames until it is tried again
	pause   int     // the last wait
}

// After how many frames a codec that is not in use is tried again.
const (
	firstPause = 16
	mostPause  = 1024
)

// perByte is how many seconds a byte of a frame takes until it has left and is
// unpacked. To unpack counts as much as to pack: it takes less for most frames, and
// more for those that are nearly empty, which gain the most.
func (t *trial) perByte(rate float64) float64 {
	if t.samples == 0 || t.ratio > 1-leastGain {
		return math.Inf(1)
	}
	return 2*t.cost + t.ratio/rate
}

// due counts a frame for which the codec is not the best. What was measured long
// ago then gives way to what comes of this frame alone.
func (t *trial) due() bool {
	if t.wait--; t.wait > 0 {
		return false
	}
	t.pause = min(max(firstPause, 2*t.pause), mostPause)
	t.wait, t.samples = t.pause, 0
	return true
}

func (t *trial) inUse() { t.pause, t.wait = firstPause, firstPause }

// add weighs a new sample with an eighth, after the first eight.
func (t *trial) add(size int, f form) {
	ratio := 1.0
	if f.data != nil {
		ratio = float64(len(f.data)) / float64(size)
	}
	t.samples = min(t.samples+1, 8)
	weight := 1 / float64(t.samples)
	t.ratio += weight * (ratio - t.ratio)
	t.cost += weight * (f.took.Seconds()/float64(size) - t.cost)
}

// compressor makes single frames smaller. Safe for concurrent use, but calls with
// Zstandard wait for each other: whoever must not wait for a large frame of
// somebody else has one of its own. It holds no goroutine and needs no end, but a
// Go channel, which is why it is no package variable: tests in virtual time could
// not share it.
type compressor struct {
	zstd *zstd.Encoder // takes its memory when it is first used
}

// zstdWindow is how far back a repetition is found, in bytes: it costs as much memory.
const zstdWindow = 1 << 20

// newCompressor takes the fastest zstd for every day, but with entropy coding also where nothing
// repeats: an image with the noise of a sensor has no repetitions at all, so that s2
// gains nothing and zstd 17 % in 2.5 ms/MB; the next level gains 29 % in 15 ms/MB.
func newCompressor() *compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true),
		zstd.WithSingleSegment(true), // frames of every size declare it
		zstd.WithEncoderCRC(false))   // the transport's packets are authenticated
	if err != nil {
		panic(err) // the options are wrong
	}
	return &compressor{zstd: e}
}

// compress makes frame smaller. packed is in dst's memory (its length does not
// matter), or in new memory where dst has too little: even when it is not worth it,
// that is when it saves less than leastGain, packed is for use as the next dst.
func (c *compressor) compress(codec wire.Codec, dst, frame []byte) (packed []byte, worth bool) {
	switch codec {
	case wire.CodecS2:
		packed = s2.Encode(dst[:cap(dst)], frame)
	case wire.CodecZstd:
		packed = c.zstd.EncodeAll(frame, dst[:0])
	default:
		return dst, false
	}
	return packed, float64(len(packed)) <= (1-leastGain)*float64(len(frame))
}

// unpacker decompresses frames that a peer has compressed. One goroutine at a time. The zero
// value works. It needs no close. It uses memory of about the largest frame and 512 KiB.
type unpacker struct {
	buf  []byte
	zstd *zstd.Decoder // nil until it is needed
	head zstd.Header
}

// unpack decompresses data into a frame, which is valid until the next call. rawSize is the
// frame's size as its sender says. With CodecNone the frame is data, and rawSize is ignored. A
// frame larger than limit, or of another size than rawSize, is an error. unpack never takes
// more memory than limit and 512 KiB, whatever data is.
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

// zstdSlack is room for one block, which is how much the decoder may write beyond the declared
// size before it notices. With that room the decoder never allocates memory for it.
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

// oneFrame reports whether data is exactly one zstd frame (RFC 8878, section 3.1.1). A decoder
// would also decode a second frame, and its output would grow.
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
