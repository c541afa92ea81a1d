package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"achbridge/wire"
)

// vector is one block of testdata/vectors.txt.
type vector struct {
	name   string
	fields string
	sealed []byte
}

// fields has the fields of a vector. A missing field is zero.
type fields struct {
	KeyID, Secret, Node, Seed string // hex; Seed is that of the signing key, "" without one
	Counter, Epoch, Seq       uint64
	Captured                  time.Duration
	LastValue                 bool
	Codec                     wire.Codec
	RawSize                   int
	Data                      []byte
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			var w fields
			d := json.NewDecoder(strings.NewReader(v.fields))
			d.DisallowUnknownFields()
			if err := d.Decode(&w); err != nil {
				t.Fatal(err)
			}
			origin, s, o := w.ends(t)
			s.counter = w.Counter - 1
			f := Frame{Epoch: w.Epoch, Seq: w.Seq, Captured: w.Captured, LastValue: w.LastValue, Codec: w.Codec, RawSize: w.RawSize, Data: w.Data}
			if b := mustSeal(t, s, f); !bytes.Equal(b, v.sealed) {
				t.Errorf("seal: got %x, want %x", b, v.sealed)
			}
			if got, err := o.Open(nil, v.sealed); err != nil || !same(got, f) {
				t.Errorf("open: got %+v, %v, want %+v", got, err, f)
			}
			if id, err := KeyOf(v.sealed); err != nil || id != origin.Key.ID {
				t.Errorf("key of: got %x, %v, want %x", id, err, origin.Key.ID)
			}
		})
	}
}

// ends returns the origin, the sealer and the opener of a vector.
func (w fields) ends(t *testing.T) (Origin, *Sealer, *Opener) {
	var o Origin
	copy(o.Key.ID[:], unhex(t, w.KeyID))
	copy(o.Key.Secret[:], unhex(t, w.Secret))
	copy(o.Node[:], unhex(t, w.Node))
	if w.Seed == "" {
		return o, NewSealer(o, nil), NewOpener(o, nil, w.Counter)
	}
	private := hostKey(unhex(t, w.Seed)[0])
	return o, NewSealer(o, private), NewOpener(o, publicOf(private), w.Counter)
}

func readVectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "name":
			all = append(all, vector{name: value})
		case "fields":
			all[len(all)-1].fields += value
		case "hex":
			digits, _, _ := strings.Cut(value, "#")
			v := &all[len(all)-1]
			v.sealed = append(v.sealed, unhex(t, digits)...)
		}
	}
	if len(all) == 0 {
		t.Fatal("testdata/vectors.txt: no vectors")
	}
	return all
}

func unhex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
