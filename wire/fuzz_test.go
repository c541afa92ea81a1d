package wire

import (
	"bytes"
	"io"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.kind() == "datagram" {
			f.Add(v.bytes)
		}
	}
	for _, h := range hostileDatagrams {
		f.Add(fromHex(f, h.hex))
	}
	f.Add(mixedDatagram())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		out := AppendHeader(nil, d.Header)
		for e, ok := d.Next(); ok; e, ok = d.Next() {
			before := len(out)
			out = appendEntry(out, d.Sent, e)
			n := len(out) - before
			if e.Kind == KindFrame && n != frameSize(d.Sent, e.Frame) || e.Kind == KindPart && n != partSize(d.Sent, e.Part) {
				t.Fatalf("%+v: wrong size, want %d", e, n)
			}
		}
		// There is only one way to write a datagram.
		if !bytes.Equal(out, b) {
			t.Fatalf("got %x, want %x", out, b)
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.kind() != "datagram" && v.kind() != "stream" {
			f.Add(v.bytes[4:])
		}
	}
	for _, h := range hostileMessages {
		f.Add(fromHex(f, h.hex))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := ParseMessage(body)
		if err != nil {
			return
		}
		if _, unknown := m.(Unknown); unknown {
			return
		}
		out, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		again, err := ParseMessage(out[4:])
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		out2, err := AppendMessage(nil, again)
		if err != nil || !bytes.Equal(out, out2) {
			t.Fatalf("got %x, %v, want %x", out2, err, out)
		}
	})
}

func FuzzReadStream(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.kind() == "stream" {
			f.Add(v.bytes)
		}
	}
	for _, h := range hostileStreams {
		f.Add(fromHex(f, h.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readStream(bytes.NewReader(b), streamLimit)
		for _, r := range s.Records {
			if len(r.Data) > streamLimit || r.RawSize > streamLimit {
				t.Fatalf("%+v: above %d bytes", r, streamLimit)
			}
		}
		if len(b) == 0 || err != nil && s.Sub == 0 {
			return
		}
		// Each stream has only one encoding, so append returns the bytes that were read.

		out := s.append(nil)
		if !bytes.HasPrefix(b, out) || err == io.EOF && len(out) != len(b) {
			t.Fatalf("%v: got %x, want %x", err, out, b)
		}
	})
}
