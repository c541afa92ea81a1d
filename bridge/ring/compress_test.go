package ring

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// payloads returns typical frames of robots by name.
func payloads() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 1))
	random := make([]byte, 1_000_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	return map[string][]byte{
		"image 1 MB": cameraImage(rng, 1000, 1000), "scan 3 kB": laserScan(rng, 720),
		"grid 64 kB": gridMap(256), "random 1 MB": random, "random 3 kB": random[:3000],
	}
}

// cameraImage returns a smooth gradient with sensor noise, one byte a pixel.
func cameraImage(rng *rand.Rand, width, height int) []byte {
	b := make([]byte, width*height)
	for i := range b {
		x, y := float64(i%width), float64(i/width)
		b[i] = byte(100 + 50*math.Sin(x/200) + 50*math.Cos(y/300) + 1.5*rng.NormFloat64())
	}
	return b
}

// laserScan returns the distances that a laser scanner measures in a room, in metres, as float32.
func laserScan(rng *rand.Rand, beams int) []byte {
	b := make([]byte, 0, 4*beams)
	for i := range beams {
		angle := 2 * math.Pi * float64(i) / float64(beams)
		wall := 4 / max(math.Abs(math.Sin(angle)), math.Abs(math.Cos(angle)))
		mm := math.Round(1000 * (wall + 0.01*rng.NormFloat64()))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mm/1000)))
	}
	return b
}

// gridMap returns a map of side × side cells: unknown, free, and a wall around a room.
func gridMap(side int) []byte {
	b := make([]byte, side*side)
	for i := range b {
		x, y := i%side-side/2, i/side-side/2
		switch r := max(x, -x, y, -y); {
		case r > side/3:
			b[i] = 0xff
		case r == side/3:
			b[i] = 100
		}
	}
	return b
}

func TestIncompressibleFrameIsSentUncompressed(t *testing.T) {
	p := Compression{Want: rule.CompressZstd, compressor: NewCompressor(), now: stopped}
	frame := payloads()["random 3 kB"]
	got, codec := p.Compress(frame, 1e6)
	if codec != wire.CodecNone || &got[0] != &frame[0] {
		t.Errorf("got codec %d, %d bytes, want the frame itself", codec, len(got))
	}
}

func TestCompressionPlanFollowsOption(t *testing.T) {
	for _, c := range []struct {
		want rule.Compress
		size int
		rate float64
		plan wire.Codec
	}{
		{rule.CompressNone, 1 << 20, 1e5, wire.CodecNone},
		{rule.CompressZstd, 127, 1e5, wire.CodecNone},
		{rule.CompressZstd, 128, 0, wire.CodecZstd},
		{rule.CompressAuto, 4095, 1e5, wire.CodecNone},
		{rule.CompressAuto, 4096, 1e5, wire.CodecS2},
		{rule.CompressAuto, 4096, 0, wire.CodecNone}, // a rate that is not known yet
	} {
		p := Compression{Want: c.want}
		if got := p.Plan(c.size, c.rate); got != c.plan {
			t.Errorf("%v: got %d, want %d", c, got, c.plan)
		}
	}
}

// stopped returns the time of a clock that does not advance.
func stopped() time.Duration { return 0 }

// sample contains the result of each codec for frames of 10 kB.
type sample map[wire.Codec]Compressed

const sampleSize = 10_000

// run plans count frames and returns how many were compressed by each codec.
func (s sample) run(p *Compression, rate float64, count int) map[wire.Codec]int {
	used := map[wire.Codec]int{}
	for range count {
		codec := p.Plan(sampleSize, rate)
		used[codec]++
		if codec != wire.CodecNone {
			p.Learn(codec, sampleSize, s[codec])
		}
	}
	return used
}

func gives(size int, took time.Duration) Compressed {
	return Compressed{Data: make([]byte, size), Took: took}
}

func TestAutoSelectsFastestCodec(t *testing.T) {
	frames := sample{wire.CodecS2: gives(8000, 20*time.Microsecond), wire.CodecZstd: gives(5000, 100*time.Microsecond)}
	for _, c := range []struct {
		name string
		rate float64 // uncompressed: 10 kB/rate; s2: 40 µs + 8 kB/rate; zstd: 200 µs + 5 kB/rate
		want wire.Codec
	}{
		{"a slow link", 1e6, wire.CodecZstd},   // 10.0 ms; 8.04 ms; 5.2 ms
		{"a faster one", 2.5e7, wire.CodecS2},  // 400 µs; 360 µs; 400 µs
		{"a fast one", 1.25e8, wire.CodecNone}, // 80 µs; 104 µs; 240 µs
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Compression
			frames.run(&p, c.rate, 100)
			if used := frames.run(&p, c.rate, 1000); used[c.want] < 950 {
				t.Errorf("got %v of 1000 frames by codec, want nearly all by %d", used, c.want)
			}
		})
	}
}

func TestCompressedImagesAreRarelyTried(t *testing.T) {
	var p Compression
	jpeg := sample{wire.CodecS2: {Took: time.Microsecond}, wire.CodecZstd: {Took: time.Microsecond}}
	used := jpeg.run(&p, 1e5, 10_000)
	// The first frame, then after 16, 32 … 1024, 1024 … more: 1 + 6 + 8.
	if used[wire.CodecS2] != 15 || used[wire.CodecZstd] != 15 {
		t.Errorf("got %v of 10000 frames by codec, want 15 tries each", used)
	}
}

func TestAutoCompressionAdaptsToRateAtOnce(t *testing.T) {
	var p Compression
	frames := sample{wire.CodecS2: gives(5000, 50*time.Microsecond)}
	frames.run(&p, 1.25e8, 1000)
	if got := p.Plan(sampleSize, 1e6); got != wire.CodecS2 {
		t.Errorf("got codec %d after the rate fell, want s2", got)
	}
}

func TestAutoCompressionAdaptsToContent(t *testing.T) {
	var p Compression
	sample{}.run(&p, 1e6, 5000)
	raw := sample{wire.CodecS2: gives(7000, time.Microsecond)}
	if used := raw.run(&p, 1e6, 2*maxPause); used[wire.CodecS2] < maxPause-16 {
		t.Errorf("got %v by codec, want s2 after %d frames at most", used, maxPause)
	}
	if used := (sample{}).run(&p, 1e6, 100); used[wire.CodecS2] > 24 {
		t.Errorf("got %v by codec when nothing is gained any more, want s2 given up", used)
	}
}

func TestCompressionMeasuresItsDuration(t *testing.T) {
	frame := payloads()["grid 64 kB"]
	var now, step time.Duration
	p := Compression{compressor: NewCompressor(), now: func() time.Duration { now += step; return now }}
	compressed := 0
	count := func() int {
		compressed = 0
		for range 100 {
			if _, codec := p.Compress(frame, 1.25e6); codec != wire.CodecNone { // 52 ms uncompressed
				compressed++
			}
		}
		return compressed
	}
	step = time.Second
	if count(); compressed > 10 {
		t.Errorf("got %d of 100 frames compressed in 1 s each, want a few tries", compressed)
	}
	p.stats = [len(Codecs)]codecStats{}
	step = time.Millisecond
	if count(); compressed < 90 {
		t.Errorf("got %d of 100 frames compressed in 1 ms each, want nearly all", compressed)
	}
}

func TestCompressionAllocatesNothing(t *testing.T) {
	need.NoRace(t)
	for name, frame := range payloads() {
		for _, want := range []rule.Compress{rule.CompressZstd, rule.CompressAuto} {
			p := Compression{Want: want, compressor: NewCompressor(), now: stopped}
			var u Decompressor
			step := func() {
				compressed, codec := p.Compress(frame, 1e6)
				if _, err := u.Decompress(codec, len(frame), len(frame), compressed); err != nil {
					t.Fatal(err)
				}
			}
			for range 40 { // auto tries both Codecs
				step()
			}
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%s, compress %d: got %v allocations a frame, want none", name, want, n)
			}
		}
	}
}
