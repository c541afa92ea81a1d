package hub

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// vector is one block of testdata/vectors.txt.
type vector struct{ name, fields, hex string }

func readVectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		key, value, _ := strings.Cut(line, " ")
		if key == "name" {
			all = append(all, vector{name: value})
		}
		switch key {
		case "fields":
			all[len(all)-1].fields += value
		case "hex":
			all[len(all)-1].hex += strings.ReplaceAll(value, " ", "")
		}
	}
	if len(all) == 0 {
		t.Fatal("testdata/vectors.txt: no vectors")
	}
	return all
}

func TestVectorsRoundTrip(t *testing.T) {
	for _, v := range readVectors(t) {
		want, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		var value, parsed any
		var written []byte
		switch kind, _, _ := strings.Cut(v.name, " "); kind {
		case "message":
			var m message
			err = json.Unmarshal([]byte(v.fields), &m)
			value, written = m, m.append(nil)
			if got, e := parseMessage(want); e != nil {
				t.Errorf("%s: %v", v.name, e)
			} else {
				parsed = got
			}
		case "here":
			var h here
			err = json.Unmarshal([]byte(v.fields), &h)
			value, written = h, h.append(nil)
			if got, e := parseHere(want); e != nil {
				t.Errorf("%s: %v", v.name, e)
			} else {
				parsed = got
			}
		}
		if err != nil || !bytes.Equal(written, want) {
			t.Errorf("%s: written as %x, %v, want %x", v.name, written, err, want)
		}
		if !reflect.DeepEqual(parsed, value) {
			t.Errorf("%s: read as %+v, want %+v", v.name, parsed, value)
		}
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	header := func(k kind, rest ...byte) []byte { return append([]byte{0, 0, 0, 0, 0, 0, 0, 1, byte(k)}, rest...) }
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "message: got 0 bytes, want a header of 9"},
		{make([]byte, 8), "message: got 8 bytes"},
		{header(0), "message: unknown kind 0"},
		{header(5), "message: unknown kind 5"},
		{header(kindOpen, 1), "open: got a body of 1 bytes, want none"},
		{header(kindData), "data: got 0 bytes, want 1 to 4096"},
		{header(kindData, make([]byte, maxData+1)...), "data: got 4097 bytes"},
		{header(kindCredit, 1), "credit: got a body of 1 bytes, want 8"},
		{header(kindClose, 0xff), "close: want a reason of printable UTF-8"},
		{header(kindClose, '\n'), "close: want a reason of printable UTF-8"},
		{header(kindClose, bytes.Repeat([]byte("a"), maxReason+1)...), "close: want a reason of printable UTF-8"},
	} {
		if _, err := parseMessage(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20x: got %v, want %s", c.b, err, c.want)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, hereSize-1), make([]byte, hereSize)} {
		if h, err := parseHere(b); err == nil {
			t.Errorf("presence %x: got %+v, want an error", b, h)
		}
	}
}

func FuzzMessageRoundTrip(f *testing.F) {
	for _, v := range readVectors(f) {
		b, _ := hex.DecodeString(v.hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMessage(b); err == nil && !bytes.Equal(m.append(nil), b) {
			t.Errorf("%x is read as %+v, which is written %x", b, m, m.append(nil))
		}
		if h, err := parseHere(b); err == nil {
			if again, err := parseHere(h.append(nil)); err != nil || again != h {
				t.Errorf("%x is read as %+v, which is read back as %+v, %v", b, h, again, err)
			}
		}
	})
}

// FuzzStreamMessages passes a byte stream the messages of a dishonest hub.
func FuzzStreamMessages(f *testing.F) {
	f.Add([]byte{1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 10, 0, 0, 0, 0, 0, 0, 0, 1, 2, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		c := &Client{}
		c.sessions.init(c)
		s := newSession(c, nil, sessionKey{"pc", "1"})
		c.sessions.add(s)
		for number := uint64(0); len(script) > 1; {
			n := min(int(script[1]), len(script)-2)
			m, err := parseMessage(script[2 : 2+n])
			if script[0]%2 == 1 {
				m.Number = number // the correct number
			}
			script = script[2+n:]
			if err != nil || s.apply(m) != nil {
				s.fail(errBroken)
				break
			}
			number++
			if len(s.buffer) > streamCredit || s.sent > s.allowed {
				t.Fatalf("got %d bytes kept, %d of %d sent", len(s.buffer), s.sent, s.allowed)
			}
		}
		if s.reason() != nil && len(c.sessions.open) != 0 {
			t.Error("a stream that has ended is still in the table")
		}
	})
}
