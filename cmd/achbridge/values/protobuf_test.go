package values

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"

	"achbridge/bridge/layout"
)

// ofProto returns the layout of message M of a .proto file.
func ofProto(t testing.TB, text string) *layout.Layout {
	t.Helper()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"m.proto": text})}}
	files, err := c.Compile(context.Background(), "m.proto")
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.OfMessage(files[0].Messages().ByName("M"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const family = `syntax = "proto2"; message M { optional string name = 1; repeated M children = 2; optional M parent = 3; optional bytes raw = 4; repeated double q = 5; message Empty {} optional Empty empty = 6; }`

// bytesField returns a field of a message with these bytes.
func bytesField(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func TestRecursiveMessageIsShownInAllForms(t *testing.T) {
	leaf := bytesField(1, []byte("leaf"))
	frame := append(bytesField(2, leaf), bytesField(2, bytesField(2, leaf))...)
	frame = append(append(frame, bytesField(3, leaf)...), bytesField(6, nil)...)
	for _, c := range []struct {
		form   Form
		fields []string
		want   string
	}{
		{Lines, nil, "children[].name:                 [\"leaf\", -]\nchildren[].children[].name:      [[], [\"leaf\"]]\nchildren[].children[].children:  [[], [[]]]\nchildren[].children[].q:         [[], [[]]]\n"},
		{Lines, nil, "parent.name:                     \"leaf\"\nparent.children:                 []\n"},
		{Lines, nil, "empty:                           {}\n"},
		{Lines, []string{"children[1].children[0].name", "children[9].name", "parent.parent.name"}, "children[1].children[0].name:  \"leaf\"\nchildren[9].name:              -\nparent.parent.name:            -\n"},
		{CSV, nil, "%time,name,children,parent,raw,q,empty\n"},
		{CSV, nil, `,,"[{""name"":""leaf"",""children"":[],""q"":[]},{""children"":[{""name"":""leaf"",""children"":[],""q"":[]}],""q"":[]}]","{""name"":""leaf"",""children"":[],""q"":[]}",,,` + "\n"},
		{CSV, []string{"parent.name", "children[].name"}, "%time,parent.name,children[].name\n0001-01-01T00:00:00Z,leaf,leaf \n"},
		{JSON, []string{"parent.parent", "children[0].name"}, `"values":{"parent.parent":null,"children[0].name":"leaf"}}`},
	} {
		p := Printer{Layout: ofProto(t, family), Form: c.form, Fields: c.fields}
		text, err := p.Frame(time.Time{}, frame)
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%v %v: got\n%s%v, want\n%s", c.form, c.fields, text, err, c.want)
		}
	}
}

func TestLongBytesAreTruncatedUnlessRequested(t *testing.T) {
	frame := bytesField(4, make([]byte, 65))
	p := Printer{Layout: ofProto(t, family)}
	for want, fields := range map[string][]string{strings.Repeat("0", 128) + "... (65 bytes)\n": nil, strings.Repeat("0", 130) + "\n": {"raw"}} {
		p.Fields = fields
		if text, err := p.Frame(time.Time{}, frame); err != nil || !strings.Contains(string(text), " "+want) {
			t.Errorf("%v: got %s, %v", fields, text, err)
		}
	}
}

func TestNumbersReadsFieldsOfMessage(t *testing.T) {
	doubles := protowire.AppendFixed64(protowire.AppendFixed64(nil, math.Float64bits(0.5)), math.Float64bits(-1))
	l := ofProto(t, family)
	numbers, err := Numbers(l, bytesField(5, doubles), []string{"q", "parent.q", "q[7]"})
	if err != nil || len(numbers) != 2 || numbers[1].Path != "q[1]" || numbers[1].X != -1 {
		t.Errorf("got %v, %v", numbers, err)
	}
	if _, err := Numbers(l, bytesField(1, []byte("x")), []string{"name"}); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Errorf("name: got %v, want an error", err)
	}
}

// Nested messages can have more fields than CSV has columns.
func TestNestedMessagesBeyondColumnLimitAreRefused(t *testing.T) {
	var text strings.Builder
	text.WriteString(`syntax = "proto3"; message M { A0 a = 1; } message A20 {} `)
	for i := range 20 {
		fmt.Fprintf(&text, "message A%d {", i)
		for j := range 10 {
			fmt.Fprintf(&text, " A%d a%d = %d;", i+1, j, j+1)
		}
		text.WriteString("} ")
	}
	p := Printer{Layout: ofProto(t, text.String()), Form: CSV}
	if _, err := p.Frame(time.Time{}, nil); err == nil || !strings.Contains(err.Error(), "more than 4096 columns") {
		t.Errorf("got %v, want too many columns", err)
	}
	p.Form = Lines
	if out, err := p.Frame(time.Time{}, nil); err != nil || len(out) > 100 {
		t.Errorf("got %s, %v", out, err)
	}
}

// A small frame can have messages in one another whose paths take thousands of times its size.
func TestManyNestedMessagesEndSoon(t *testing.T) {
	l := ofProto(t, fmt.Sprintf(`syntax = "proto3"; message M { M %s = 1; M b = 2; int32 c = 3; }`, strings.Repeat("a", 255)))
	var frame []byte
	for range 14 {
		frame = append(bytesField(1, frame), bytesField(2, frame)...)
	}
	for _, form := range []Form{Lines, Changes} {
		p := Printer{Layout: l, Form: form}
		out, err := p.Frame(time.Time{}, frame)
		if lines := strings.Count(string(out), "\n"); err != nil || lines > maxLines+2 || !strings.HasSuffix(string(out), "--field NAME\n") {
			t.Errorf("%v: got %d lines of %d bytes, %v, want at most %d", form, lines, len(out), err, maxLines+2)
		}
		p.Fields = []string{"b.c"}
		if out, err := p.Frame(time.Time{}, frame); err != nil || !strings.Contains(string(out), "b.c:  0\n") {
			t.Errorf("%v of b.c: got %s, %v", form, out, err)
		}
	}
}

// FuzzPrinter prints arbitrary frames of a message in all forms.
func FuzzPrinter(f *testing.F) {
	l := ofProto(f, family)
	f.Add(bytesField(2, bytesField(2, bytesField(1, []byte("leaf")))), "children[].name")
	f.Add(append(bytesField(5, make([]byte, 16)), bytesField(6, nil)...), "q[1]")
	f.Fuzz(func(t *testing.T, frame []byte, path string) {
		for _, form := range []Form{Lines, Changes, CSV, JSON} {
			for _, fields := range [][]string{nil, {path}} {
				p := Printer{Layout: l, Form: form, Fields: fields, Note: func(string, ...any) {}}
				text, err := p.Frame(time.Time{}, frame)
				if err == nil && form != JSON && strings.ContainsAny(string(text), "\x1b\r") {
					t.Errorf("%q has control characters", text)
				}
			}
		}
		_, _ = Numbers(l, frame, []string{path})
		Page(l, frame)
	})
}
