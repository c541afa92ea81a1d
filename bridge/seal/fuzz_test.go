package seal

import (
	"bytes"
	"testing"
)

// FuzzParse parses arbitrary bytes. A message that parses has only one encoding, and a message that was not sealed does
// not open.
func FuzzParse(f *testing.F) {
	s := NewSealer(origin(1), nil)
	genuine := mustSeal(f, s, frame(1, "data"))
	f.Add(genuine)
	f.Add(mustSeal(f, NewSealer(origin(2), hostKey(1)), frame(1, "data")))
	for _, v := range readVectors(f) {
		f.Add(v.sealed)
	}
	f.Add(genuine[:Before+tagSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, fr, signature, err := parse(b)
		if err != nil {
			return
		}
		sealed := fr.Data
		fr.Data = sealed[:len(sealed)-tagSize]
		if err := fr.check(); err != nil {
			t.Fatalf("parsed: %+v: %v", fr, err)
		}
		out := append(append(appendHeader(nil, h, &fr), sealed...), signature...)
		if !bytes.Equal(out, b) {
			t.Fatalf("got %x, want %x", out, b)
		}
		if got, err := NewOpener(origin(1), nil, 1).Open(nil, b); err == nil && !bytes.Equal(b, genuine) {
			t.Fatalf("opened: %+v", got)
		}
	})
}
