package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// vector is one block of testdata/vectors.txt.
type vector struct {
	name   string // "datagram …", "stream …" or the message's name, then the case
	fields string // JSON of the Go value; data in base64
	bytes  []byte
}

func (v vector) kind() string {
	kind, _, _ := strings.Cut(v.name, " ")
	return kind
}

// datagram has the fields of a datagram's vector.
type datagram struct {
	Header
	Entries []struct {
		Frame    *Frame    `json:",omitempty"`
		Part     *Part     `json:",omitempty"`
		Feedback *Feedback `json:",omitempty"`
		Mark     *Mark     `json:",omitempty"`
	}
}

func TestVectors(t *testing.T) {
	vectors := readVectors(t)
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			switch v.kind() {
			case "datagram":
				checkDatagramVector(t, v)
			case "stream":
				checkStreamVector(t, v)
			default:
				checkMessageVector(t, v)
			}
		})
	}
	t.Logf("%d vectors", len(vectors))
}

func TestEveryMessageHasAVector(t *testing.T) {
	vectors := readVectors(t)
	for _, k := range messageTypes[1:] {
		found := false
		for _, v := range vectors {
			found = found || v.kind() == k.name
		}
		if !found {
			t.Errorf("%s: no vector in testdata/vectors.txt", k.name)
		}
	}
}

func checkDatagramVector(t *testing.T, v vector) {
	var want datagram
	fromJSON(t, v.fields, &want)
	b := AppendHeader(nil, want.Header)
	for _, e := range want.Entries {
		switch {
		case e.Frame != nil:
			b = AppendFrame(b, want.Sent, *e.Frame)
		case e.Part != nil:
			b = AppendPart(b, want.Sent, *e.Part)
		case e.Mark != nil:
			b = AppendMark(b, *e.Mark)
		default:
			b = AppendFeedback(b, *e.Feedback)
		}
	}
	if !bytes.Equal(b, v.bytes) {
		t.Errorf("append: got %x, want %x", b, v.bytes)
	}
	d := mustParse(t, v.bytes)
	got := entries(&d)
	if d.Header != want.Header || len(got) != len(want.Entries) {
		t.Fatalf("parse: got %+v and %d entries, want %+v", d.Header, len(got), want)
	}
	for i, e := range got {
		w := want.Entries[i]
		ok := e.Kind == KindFrame && reflect.DeepEqual(&e.Frame, w.Frame) ||
			e.Kind == KindPart && reflect.DeepEqual(&e.Part, w.Part) ||
			e.Kind == KindMark && reflect.DeepEqual(&e.Mark, w.Mark) ||
			e.Kind == KindFeedback && w.Feedback != nil && e.Feedback() == *w.Feedback
		if !ok {
			t.Errorf("parse: entry %d: got %+v, want %+v", i+1, e, w)
		}
	}
}

func checkStreamVector(t *testing.T, v vector) {
	var want stream
	fromJSON(t, v.fields, &want)
	if b := want.append(nil); !bytes.Equal(b, v.bytes) {
		t.Errorf("append: got %x, want %x", b, v.bytes)
	}
	got, err := readStream(bytes.NewReader(v.bytes), MaxFrame)
	if err != io.EOF || !reflect.DeepEqual(got, want) {
		t.Errorf("read: got %+v, %v, want %+v", got, err, want)
	}
}

func checkMessageVector(t *testing.T, v vector) {
	kind := v.kind()
	var want Message
	for i, k := range messageTypes {
		if k.name == kind && i > 0 {
			want = messageFromJSON(t, uint(i), v.fields)
		}
	}
	if want == nil {
		t.Fatalf("%s: not a message", kind)
	}
	b, err := AppendMessage(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, v.bytes) {
		t.Errorf("append: got %x, want %x", b, v.bytes)
	}
	n, err := MessageSize([4]byte(v.bytes))
	if err != nil || n != len(v.bytes)-4 {
		t.Fatalf("size: got %d, %v, want %d", n, err, len(v.bytes)-4)
	}
	got, err := ParseMessage(v.bytes[4:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parse: got %+v, want %+v", got, want)
	}
}

func messageFromJSON(t *testing.T, kind uint, fields string) Message {
	// The Go type of each message type.
	zero := map[uint]Message{
		TypeHello: Hello{}, TypeCatalog: Catalog{}, TypeSubscribe: Subscribe{}, TypeSubscribed: Subscribed{},
		TypeUpdate: Update{}, TypeUnsubscribe: Unsubscribe{}, TypeOffer: Offer{}, TypeAccepted: Accepted{},
		TypeRefused: Refused{}, TypeCounters: Counters{}, TypeBye: Bye{}, TypeRevocations: Revocations{}, TypeLoad: Load{},
		TypeDescribe: Describe{}, TypeLayout: Layout{}, TypeKey: Key{}, TypeStamp: Stamp{}, TypePulled: Pulled{}, TypeNewest: Newest{},
		TypeQuery: Query{}, TypeTake: Take{}, TypeRelease: Release{}, TypeHolderQuery: HolderQuery{}, TypeHolder: Holder{}, TypeEdit: Edit{}, TypeEdited: Edited{},
	}[kind]
	m := reflect.New(reflect.TypeOf(zero))
	fromJSON(t, fields, m.Interface())
	return m.Elem().Interface().(Message)
}

func fromJSON(t *testing.T, fields string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(fields))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("fields: %v", err)
	}
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
			hex, _, _ := strings.Cut(value, "#")
			v := &all[len(all)-1]
			v.bytes = append(v.bytes, fromHex(t, hex)...)
		}
	}
	if len(all) == 0 {
		t.Fatal("testdata/vectors.txt: no vectors")
	}
	return all
}
