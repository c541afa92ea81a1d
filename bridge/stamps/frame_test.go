package stamps

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"achbridge/bridge/layout"
)

const tenDays = 864_000 * time.Second

// snsFrame returns a frame with a header of golems/sns (include/sns/msg.h) and a payload.
func snsFrame(sec, duration int64, nsec uint32) []byte {
	b := make([]byte, snsSize, snsSize+8)
	binary.LittleEndian.PutUint64(b, uint64(sec))
	binary.LittleEndian.PutUint64(b[8:], uint64(duration))
	binary.LittleEndian.PutUint32(b[16:], nsec)
	copy(b[20:], "\x07\x00\x00\x00")
	copy(b[40:], "robot")
	return append(b, "payload."...)
}

// snsExpired judges like sns_msg_is_expired.
func snsExpired(b []byte, now time.Duration) bool {
	sec, duration := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	return int64(now) > sec*second+int64(binary.LittleEndian.Uint32(b[16:]))+duration
}

func compiled(t testing.TB, r Rule, l *layout.Layout) *Shifter {
	t.Helper()
	s, err := r.Compile(l)
	if err != nil {
		t.Fatalf("Compile(%q): %v", r, err)
	}
	return s
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestShiftSNS(t *testing.T) {
	s := compiled(t, SNS, nil)
	for _, c := range []struct {
		name             string
		sec              int64
		nsec             uint32
		by               time.Duration
		wantSec          int64
		wantNsec         uint32
		wantAt, duration time.Duration
	}{
		{"from a host that is up ten days longer", 866_872, 205_000_000, -tenDays, 2872, 205_000_000, 2872*time.Second + 305*time.Millisecond, 100 * time.Millisecond},
		{"to it", 2877, 47_000_000, tenDays, 866_877, 47_000_000, 866_877*time.Second + 1047*time.Millisecond, time.Second},
		{"below zero", 10, 1, -tenDays - 2, 10 - 864_000 - 1, 999_999_999, 10*time.Second - tenDays - 1, 0},
		{"unset", 0, 0, tenDays, 0, 0, time.Second, time.Second},
		{"to exactly zero", 10, 0, -10 * time.Second, 0, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := snsFrame(c.sec, int64(c.duration), c.nsec)
			want := snsFrame(c.wantSec, int64(c.duration), c.wantNsec)
			got, e, err := s.Shift(nil, in, By{Time: time.Hour, Expiry: c.by})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("Shift = %x, %v, want %x", got, err, want)
			}
			if made := time.Duration(c.wantSec)*time.Second + time.Duration(c.wantNsec); e != (Expiry{true, c.wantAt, c.duration, made}) {
				t.Errorf("Shift = %+v, want made at %v, expiry at %v", e, made, c.wantAt)
			}
			for _, now := range []time.Duration{e.At - 1, e.At, e.At + 1} {
				if e.Passed(now) != snsExpired(got, now) {
					t.Errorf("Passed(%v) = %v, sns judges otherwise", now, e.Passed(now))
				}
			}
		})
	}
}

func TestShiftRefusesBadFrames(t *testing.T) {
	l := &layout.Layout{Name: "l", Size: 16, Fields: []layout.Field{{Name: "sec", Type: layout.Uint32}, {Name: "nsec", Offset: 4, Type: layout.Uint32}, {Name: "dur", Offset: 8, Type: layout.Int64}}}
	fields := Rule("time:sec+nsec;duration:dur")
	nan := make([]byte, 16)
	binary.LittleEndian.PutUint64(nan[6:], math.Float64bits(math.NaN()))
	for _, c := range []struct {
		name  string
		rule  Rule
		frame []byte
		want  error
	}{
		{"sns too short", SNS, make([]byte, snsSize-1), ErrSize},
		{"sns nanoseconds", SNS, snsFrame(1, 1, 1e9), ErrValue},
		{"sns seconds", SNS, snsFrame(math.MaxInt64, 1, 1), ErrValue},
		{"hubo too short", Hubo, make([]byte, 9), ErrSize},
		{"hubo not a number", Hubo, nan, ErrValue},
		{"layout size", fields, make([]byte, 17), ErrSize},
		{"unsigned below zero", fields, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ErrValue},
		{"somatic cut short", Somatic, unhex(t, "7a0612040801"), ErrFormat},
		{"somatic time twice", Somatic, unhex(t, "7a0812020801"+"12020801"), ErrFormat},
		{"somatic meta twice", Somatic, unhex(t, "7a0412020801"+"7a0412020801"), ErrFormat},
		{"somatic group", Somatic, unhex(t, "0b0c7a0412020801"), ErrFormat},
		{"somatic nanoseconds", Somatic, unhex(t, "7a0a1208080110ffffffff0f"), ErrValue},
		{"somatic seconds of eleven bytes", Somatic, unhex(t, "7a0e120c08ffffffffffffffffffff01"), ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, e, err := compiled(t, c.rule, l).Shift([]byte("x"), c.frame, By{-tenDays, -tenDays})
			if !errors.Is(err, c.want) || string(got) != "x" || e != (Expiry{}) {
				t.Errorf("Shift = %x, %+v, %v, want %v", got, e, err, c.want)
			}
		})
	}
}

// somaticFrame returns the hexadecimal bytes of a message with metadata.
func somaticFrame(meta string) string { return "0801" + meta + "a20602aabb" } // field 100 is unknown

func TestShiftSomatic(t *testing.T) {
	s := compiled(t, Somatic, nil)
	for _, c := range []struct {
		name, in, want string
		by             By
		at, duration   time.Duration
		isKnown        bool
	}{
		// 3681 s and 5 ns, until 3682 s: to a host that is up 100 days longer, and from there.
		{"longer", "7a0c" + "120508e11c1005" + "1a0308e21c", "7a10" + "120708e1c88f041005" + "1a0508e2c88f04", By{8_640_000 * time.Second, 8_640_000 * time.Second}, 8_643_682 * time.Second, 999_999_995, true},
		{"shorter", "7a10" + "120708e1c88f041005" + "1a0508e2c88f04", "7a0c" + "120508e11c1005" + "1a0308e21c", By{-8_640_000 * time.Second, -8_640_000 * time.Second}, 3682 * time.Second, 999_999_995, true},
		{"below one becomes one", "7a0a" + "120308e11c" + "1a0308e21c", "7a0c" + "120408001001" + "1a0408001001", By{-tenDays, -tenDays}, 3682*time.Second - tenDays, time.Second, true},
		{"unset stays", "7a0a" + "120408001000" + "1a020800", "7a0a" + "120408001000" + "1a020800", By{tenDays, tenDays}, 0, 0, false},
		{"no until", "7a05" + "120308e11c", "7a06" + "120408e1fa34", By{tenDays, tenDays}, 0, 0, false},
		{"no metadata", "", "", By{tenDays, tenDays}, 0, 0, false},
		{"nanoseconds appear", "7a05" + "120308e11c", "7a07" + "120508e11c1005", By{5, 5}, 0, 0, false},
		{"seconds appear", "7a04" + "12021005", "7a06" + "120410050801", By{time.Second, time.Second}, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, somaticFrame(c.want))
			got, e, err := s.Shift(nil, unhex(t, somaticFrame(c.in)), c.by)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("Shift = %x, %v, want %x", got, err, want)
			}
			if e.IsKnown != c.isKnown || e.At != c.at && c.isKnown || e.Duration != c.duration && c.isKnown {
				t.Errorf("Shift = %+v, want %v after %v", e, c.at, c.duration)
			}
		})
	}
}

func TestShiftKeepsLongVarints(t *testing.T) {
	s := compiled(t, Somatic, nil)
	// Seconds 1 in five bytes, and both lengths in two bytes.
	in := unhex(t, "7a8900"+"128600"+"088180808000")
	got, _, err := s.Shift(nil, in, By{Time: time.Second})
	if want := unhex(t, "7a8900"+"128600"+"088280808000"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Shift = %x, %v, want %x", got, err, want)
	}
	got, _, err = s.Shift(nil, in, By{Time: 1 << 50})
	sec, nsec := split(1<<50 + second)
	var read [roles]partsRead
	if err != nil || !s.root.read(got, &read) || read[timeRole].value != [parts]uint64{secs: uint64(sec), nsecs: uint64(nsec)} {
		t.Errorf("Shift = %x, %v, want %d s %d ns", got, err, sec, nsec)
	}
}

func TestShiftHubo(t *testing.T) {
	in := make([]byte, 3898)
	binary.LittleEndian.PutUint64(in[3888:], math.Float64bits(866_872.25))
	got, e, err := compiled(t, Hubo, nil).Shift(nil, in, By{Time: -tenDays})
	want := bytes.Clone(in)
	binary.LittleEndian.PutUint64(want[3888:], math.Float64bits(2872.25))
	if err != nil || e.IsKnown || !bytes.Equal(got, want) {
		t.Errorf("Shift = %+v, %v, want the time at 3888 shifted only", e, err)
	}
}

func TestShiftFields(t *testing.T) {
	l := &layout.Layout{Name: "cmd", Size: 40, Fields: []layout.Field{
		{Name: "header", Type: layout.Struct, Size: 24, Fields: []layout.Field{
			{Name: "ns", Type: layout.Int64}, {Name: "until", Offset: 8, Type: layout.Double}, {Name: "sec", Offset: 16, Type: layout.Int32}, {Name: "nsec", Offset: 20, Type: layout.Int32},
		}},
		{Name: "dur", Offset: 24, Type: layout.Uint64}, {Name: "v", Offset: 32, Type: layout.Double},
	}}
	in := make([]byte, 40)
	binary.LittleEndian.PutUint64(in, 5e9)
	binary.LittleEndian.PutUint64(in[8:], math.Float64bits(7.5))
	binary.LittleEndian.PutUint32(in[16:], 6)
	binary.LittleEndian.PutUint64(in[24:], 2e9)
	by := By{Time: 10 * time.Second, Expiry: 9 * time.Second}
	for _, c := range []struct {
		rule Rule
		want func(b []byte)
		e    Expiry
	}{
		{"time:header.ns;until:header.until", func(b []byte) {
			binary.LittleEndian.PutUint64(b, 15e9)
			binary.LittleEndian.PutUint64(b[8:], math.Float64bits(16.5))
		}, Expiry{true, 16500 * time.Millisecond, 2500 * time.Millisecond, 15 * time.Second}},
		{"time:header.sec+header.nsec;duration:dur", func(b []byte) { b[16] = 15 }, Expiry{true, 17 * time.Second, 2 * time.Second, 15 * time.Second}},
		{"time:header.ns", func(b []byte) { binary.LittleEndian.PutUint64(b, 15e9) }, Expiry{Made: 15 * time.Second}},
	} {
		if r, err := ParseRule(string(c.rule)); r != c.rule || err != nil || !r.NeedsLayout() {
			t.Errorf("ParseRule(%q) = %q, %v", c.rule, r, err)
		}
		want := bytes.Clone(in)
		c.want(want)
		if got, e, err := compiled(t, c.rule, l).Shift(nil, in, by); err != nil || !bytes.Equal(got, want) || e != c.e {
			t.Errorf("%s: Shift = %x, %+v, %v, want %x, %+v", c.rule, got, e, err, want, c.e)
		}
	}
}

func TestStampSetsTimeToNow(t *testing.T) {
	const now = 1000*time.Second + 7
	for _, c := range []struct {
		name     string
		rule     Rule
		in, want []byte
		err      error
	}{
		{"sns", SNS, snsFrame(2877, int64(time.Second), 5), snsFrame(1000, int64(time.Second), 7), nil},
		{"sns without a time", SNS, snsFrame(0, int64(time.Second), 0), snsFrame(1000, int64(time.Second), 7), nil},
		{"somatic", Somatic, unhex(t, somaticFrame("7a0c"+"120508e11c1005"+"1a0308e21c")), unhex(t, somaticFrame("7a0e"+"120508e8071007"+"1a0508e9071002")), nil},
		{"somatic without a time", Somatic, unhex(t, somaticFrame("")), nil, ErrNoTime},
		{"only until", "until:15.3.1+15.3.2", unhex(t, somaticFrame("7a05"+"1a0308e21c")), nil, ErrNoTime},
		{"too short", SNS, make([]byte, snsSize-1), nil, ErrSize},
	} {
		got, err := compiled(t, c.rule, nil).Stamp(nil, c.in, now)
		if !errors.Is(err, c.err) || !bytes.Equal(got, c.want) {
			t.Errorf("%s: Stamp = %x, %v, want %x, %v", c.name, got, err, c.want, c.err)
		}
		if err != nil {
			continue
		}
		if again, err := compiled(t, c.rule, nil).Stamp(nil, got, now); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: Stamp of a stamped frame = %x, %v, want no change", c.name, again, err)
		}
	}
}

func TestShiftBackRestoresFrame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		base := random.Int64N(1 << 50)
		by := time.Duration(random.Int64N(1<<50) - base/2)
		if base+int64(by) < 1 {
			continue
		}
		sns := snsFrame(base/second, random.Int64(), uint32(base%second))
		var stamp []byte
		stamp = binary.AppendUvarint(append(stamp, 8), uint64(base/second))
		stamp = binary.AppendUvarint(append(stamp, 16), uint64(base%second))
		meta := append([]byte{18, byte(len(stamp))}, stamp...)
		somatic := append([]byte{8, 1, 15<<3 | 2, byte(len(meta))}, meta...)
		for r, frame := range map[Rule][]byte{SNS: sns, Somatic: somatic} {
			s := compiled(t, r, nil)
			there, _, err := s.Shift(nil, frame, By{by, by})
			if err != nil {
				t.Fatalf("%s: Shift(%x, %v): %v", r, frame, by, err)
			}
			if back, _, err := s.Shift(nil, there, By{-by, -by}); err != nil || !bytes.Equal(back, frame) {
				t.Fatalf("%s: shifted by %v and back: got %x, %v, want %x", r, by, back, err, frame)
			}
		}
	}
}

func TestShiftAllocatesNothing(t *testing.T) {
	frames := map[Rule][]byte{SNS: snsFrame(1, 1, 1), Hubo: make([]byte, 3898), Somatic: unhex(t, somaticFrame("7a0c"+"120508e11c1005"+"1a0308e21c"))}
	for r, frame := range frames {
		s, buf := compiled(t, r, nil), make([]byte, 0, 4096)
		if got := testing.AllocsPerRun(100, func() { buf, _, _ = s.Shift(buf[:0], frame, By{tenDays, tenDays}) }); got != 0 {
			t.Errorf("%s: Shift allocates %v times, want 0", r, got)
		}
		if got := testing.AllocsPerRun(100, func() { buf, _, _ = s.Shift(buf[:0], frame[:3], By{tenDays, tenDays}) }); got != 0 {
			t.Errorf("%s: Shift of a bad frame allocates %v times, want 0", r, got)
		}
	}
}

// FuzzShift checks that a frame is either refused, or changed only in its stamps.
func FuzzShift(f *testing.F) {
	f.Add(snsFrame(1, 1, 1), int64(tenDays))
	f.Add(unhex(f, somaticFrame("7a0c"+"120508e11c1005"+"1a0308e21c")), int64(-tenDays))
	f.Add(unhex(f, "7a8900"+"128600"+"088180808000"), int64(1<<50))
	f.Add(make([]byte, 3898), int64(1))
	rules := []Rule{SNS, Somatic, Hubo, "time:1;duration:2", "time:1.1+1.2;until:1.3"}
	var shifters []*Shifter
	for _, r := range rules {
		shifters = append(shifters, compiled(f, r, nil))
	}
	f.Fuzz(func(t *testing.T, frame []byte, by int64) {
		for i, s := range shifters {
			before := bytes.Clone(frame)
			got, e, err := s.Shift(nil, frame, By{time.Duration(by), time.Duration(by)})
			if !bytes.Equal(before, frame) {
				t.Fatalf("%s: Shift changed its input", rules[i])
			}
			if err != nil {
				if got != nil || e != (Expiry{}) {
					t.Fatalf("%s: Shift = %x, %+v, %v", rules[i], got, e, err)
				}
				continue
			}
			if s.root == nil && len(got) != len(frame) || len(got) > len(frame)+64 {
				t.Fatalf("%s: Shift made %d bytes of %d", rules[i], len(got), len(frame))
			}
			same, e2, err := s.Shift(nil, got, By{})
			if err != nil || !bytes.Equal(same, got) || e2.IsKnown != e.IsKnown || e2.At != e.At && e.At > 0 {
				if rules[i] == Hubo { // a double is rounded
					continue
				}
				t.Fatalf("%s: Shift(%x) = %x, %+v; by nothing: %x, %+v, %v", rules[i], frame, got, e, same, e2, err)
			}
		}
	})
}
