package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"achbridge/wire"
)

// origin returns the origin of a test. Equal n give equal origins.
func origin(n byte) Origin {
	o := Origin{Node: [16]byte{0xac, 15: n}}
	for i := range o.Key.Secret {
		o.Key.Secret[i] = byte(i) ^ n
	}
	o.Key.ID = ID{n, 2, 3, 4, 5, 6, 7, 8}
	return o
}

func hostKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func frame(seq uint64, data string) Frame {
	return Frame{Epoch: 7, Seq: seq, Captured: 1500 * time.Millisecond, Data: []byte(data)}
}

func mustSeal(t testing.TB, s *Sealer, f Frame) []byte {
	t.Helper()
	b, err := s.Seal(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func same(a, b Frame) bool {
	x, y := a.Data, b.Data
	a.Data, b.Data = nil, nil
	return bytes.Equal(x, y) && a.Epoch == b.Epoch && a.Seq == b.Seq && a.Captured == b.Captured &&
		a.LastValue == b.LastValue && a.Codec == b.Codec && a.RawSize == b.RawSize
}

func TestSealOpenRoundTrip(t *testing.T) {
	private := hostKey(1)
	for _, signed := range []bool{false, true} {
		s, o := NewSealer(origin(1), nil), NewOpener(origin(1), nil, 1)
		if signed {
			s, o = NewSealer(origin(1), private), NewOpener(origin(1), publicOf(private), 1)
		}
		for i, f := range []Frame{
			frame(1, "a"),
			{Epoch: math.MaxUint64, Seq: math.MaxUint64, Captured: math.MaxInt64, LastValue: true, Data: make([]byte, 100_000)},
			{Seq: 9, Codec: wire.CodecS2, RawSize: wire.MaxFrame, Data: []byte("packed")},
			{Seq: 9, Codec: wire.CodecZstd, RawSize: 1, LastValue: true, Data: []byte("packed")},
		} {
			b, err := s.Seal([]byte("before"), f)
			if err != nil || len(b) != len("before")+len(f.Data)+s.Overhead() || s.Last() != uint64(i+1) {
				t.Fatalf("seal: got %d bytes, counter %d, %v", len(b), s.Last(), err)
			}
			if id, err := KeyOf(b[len("before"):]); err != nil || id != origin(1).Key.ID {
				t.Errorf("key of: got %x, %v", id, err)
			}
			got, err := o.Open([]byte("before"), b[len("before"):])
			if err != nil || !same(got, f) {
				t.Errorf("signed %t: open: got %+v, %v, want %+v", signed, got, err, f)
			}
		}
	}
}

func TestSealInPlace(t *testing.T) {
	s := NewSealer(origin(1), nil)
	buf := make([]byte, 0, 1000)
	f := frame(1, "")
	f.Data = buf[Before : Before+5]
	copy(f.Data, "stays")
	b, err := s.Seal(buf, f)
	if err != nil || &b[0] != &buf[:1][0] {
		t.Fatalf("seal: got another piece of memory, %v", err)
	}
	if got, err := NewOpener(origin(1), nil, 1).Open(nil, b); err != nil || string(got.Data) != "stays" {
		t.Errorf("open: got %q, %v", got.Data, err)
	}
}

func TestEveryChangedBitIsRejected(t *testing.T) {
	private := hostKey(1)
	for name, c := range map[string]struct {
		s *Sealer
		o *Opener
	}{
		"plain":  {NewSealer(origin(1), nil), NewOpener(origin(1), nil, 1)},
		"signed": {NewSealer(origin(1), private), NewOpener(origin(1), publicOf(private), 1)},
	} {
		f := frame(3, "data")
		b := mustSeal(t, c.s, f)
		for bit := range 8 * len(b) {
			changed := bytes.Clone(b)
			changed[bit/8] ^= 1 << (bit % 8)
			if got, err := c.o.Open(nil, changed); err == nil {
				t.Errorf("%s: bit %d of byte %d changed: got %+v", name, bit%8, bit/8, got)
			}
		}
		for n := range b {
			if got, err := c.o.Open(nil, b[:n]); err == nil {
				t.Errorf("%s: cut to %d bytes: got %+v", name, n, got)
			}
		}
		if _, err := c.o.Open(nil, append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: a byte more: no error", name)
		}
		if got, err := c.o.Open(nil, b); err != nil || !same(got, f) { // rejected frames did not advance the opener
			t.Errorf("%s: unchanged: got %+v, %v", name, got, err)
		}
	}
}

func TestReplayedAndOlderFramesAreRefused(t *testing.T) {
	s := NewSealer(origin(1), nil)
	first, second, third := mustSeal(t, s, frame(1, "a")), mustSeal(t, s, frame(2, "b")), mustSeal(t, s, frame(3, "c"))
	o := NewOpener(origin(1), nil, 1)
	if _, err := o.Open(nil, second); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"again": second, "older": first} {
		if got, err := o.Open(nil, b); !errors.Is(err, ErrReplayed) {
			t.Errorf("%s: got %+v, %v, want ErrReplayed", name, got, err)
		}
	}
	if _, err := o.Open(nil, third); err != nil {
		t.Errorf("newer: %v", err)
	}
}

func TestFramesBeforeSubscriptionAreRefused(t *testing.T) {
	s := NewSealer(origin(1), nil)
	before, newest := mustSeal(t, s, frame(1, "a")), mustSeal(t, s, frame(2, "b"))
	o := NewOpener(origin(1), nil, s.Last()) // the frame at the hub is the last value
	if _, err := o.Open(nil, before); !errors.Is(err, ErrReplayed) {
		t.Errorf("before: got %v, want ErrReplayed", err)
	}
	if _, err := o.Open(nil, newest); err != nil {
		t.Errorf("newest: %v", err)
	}
}

func TestFramesOfOtherOriginsAreRefused(t *testing.T) {
	private, other := hostKey(1), hostKey(2)
	plain, signed := NewOpener(origin(1), nil, 1), NewOpener(origin(1), publicOf(private), 1)
	anotherHost, forgedName := origin(1), origin(2)
	anotherHost.Node[0]++
	forgedName.Key.ID = origin(1).Key.ID
	forgedName.Node = origin(1).Node
	for name, c := range map[string]struct {
		o    *Opener
		by   *Sealer
		want error
	}{
		"another channel's key":                   {plain, NewSealer(origin(2), nil), errOtherKey},
		"another host":                            {plain, NewSealer(anotherHost, nil), errOtherKey},
		"another key, called by the name of ours": {plain, NewSealer(forgedName, nil), errForged},
		"a signature where there is none":         {plain, NewSealer(origin(1), private), errForged},
		"a member who does not sign":              {signed, NewSealer(origin(1), nil), errForged},
		"a member who signs by its own key":       {signed, NewSealer(origin(1), other), errForged},
	} {
		if got, err := c.o.Open(nil, mustSeal(t, c.by, frame(1, "a"))); !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, c.want)
		}
	}
}

// A signature by a host's key for another purpose is not valid for a frame, nor the reverse.
func TestSignaturesAreBoundToFrames(t *testing.T) {
	private := hostKey(1)
	b := mustSeal(t, NewSealer(origin(1), private), frame(1, "a"))
	text, signature := b[:len(b)-signatureSize], b[len(b)-signatureSize:]
	sum := sha256.Sum256(text)
	if ed25519.Verify(publicOf(private), sum[:], signature) {
		t.Error("the signature is good without its context")
	}
	forged := append(bytes.Clone(text), ed25519.Sign(private, sum[:])...)
	if got, err := NewOpener(origin(1), publicOf(private), 1).Open(nil, forged); !errors.Is(err, errForged) {
		t.Errorf("signed without the context: got %+v, %v, want errForged", got, err)
	}
}

func TestCounterNeverWraps(t *testing.T) {
	s, o := NewSealer(origin(1), nil), NewOpener(origin(1), nil, 1)
	s.counter = math.MaxUint64 - 1
	last := mustSeal(t, s, frame(1, "a"))
	for range 2 {
		if b, err := s.Seal([]byte("x"), frame(2, "b")); !errors.Is(err, errUsedUp) || string(b) != "x" {
			t.Errorf("after the last: got %x, %v, want errUsedUp", b, err)
		}
	}
	if _, err := o.Open(nil, last); err != nil {
		t.Errorf("the last: %v", err)
	}
	if _, err := o.Open(nil, mustSeal(t, NewSealer(origin(1), nil), frame(3, "c"))); !errors.Is(err, ErrReplayed) {
		t.Errorf("after the last: got %v, want ErrReplayed", err)
	}
}

func TestNoncesAreUnique(t *testing.T) {
	s := NewSealer(origin(1), nil)
	seen := map[string]bool{}
	for range 100 {
		b := mustSeal(t, s, frame(1, "the same frame"))
		if n := string(b[10:18]); seen[n] {
			t.Fatalf("counter %x: twice", n)
		} else {
			seen[n] = true
		}
	}
	if a, b := NewKey(), NewKey(); a.ID == b.ID || a.Secret == b.Secret {
		t.Error("two new keys are the same")
	}
}

func TestSealRefusesInvalidFrames(t *testing.T) {
	data := []byte("a")
	for want, f := range map[string]Frame{
		"seal: seq: 0":                     {Data: data},
		"seal: captured: -1 ns":            {Seq: 1, Captured: -1, Data: data},
		"seal: codec: 3 is unknown":        {Seq: 1, Codec: 3, RawSize: 1, Data: data},
		"seal: raw size: 1 with codec 0":   {Seq: 1, RawSize: 1, Data: data},
		"seal: raw size: 0 with codec 1":   {Seq: 1, Codec: wire.CodecS2, Data: data},
		"seal: raw size: 67108865":         {Seq: 1, Codec: wire.CodecS2, RawSize: wire.MaxFrame + 1, Data: data},
		"seal: data: 0 bytes":              {Seq: 1},
		"seal: data: 67108865 bytes, want": {Seq: 1, Data: make([]byte, wire.MaxFrame+1)},
	} {
		s := NewSealer(origin(1), nil)
		if b, err := s.Seal([]byte("x"), f); err == nil || !strings.HasPrefix(err.Error(), want) || string(b) != "x" {
			t.Errorf("got %x, %v, want %q", b, err, want)
		}
	}
}

func TestUnsignedFrameCostsNoAllocation(t *testing.T) {
	s, o := NewSealer(origin(1), nil), NewOpener(origin(1), nil, 1)
	f := frame(1, strings.Repeat("x", 1000))
	sealed, opened := make([]byte, 0, 2000), make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(100, func() {
		b, err := s.Seal(sealed, f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Open(opened, b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("allocations: got %v, want none", n)
	}
}

func BenchmarkSeal(b *testing.B) {
	private := hostKey(1)
	for _, size := range []int{100, 1000, 50_000} {
		for name, s := range map[string]*Sealer{"plain": NewSealer(origin(1), nil), "signed": NewSealer(origin(1), private)} {
			o := NewOpener(origin(1), nil, 1)
			if name == "signed" {
				o = NewOpener(origin(1), publicOf(private), 1)
			}
			f := frame(1, strings.Repeat("x", size))
			sealed, opened := make([]byte, 0, size+s.Overhead()), make([]byte, 0, size+s.Overhead())
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x, err := s.Seal(sealed, f)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := o.Open(opened, x); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
