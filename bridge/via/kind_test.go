package via

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestKindRoundTrip(t *testing.T) {
	for text, want := range map[string]Kind{"auto": Any, "quic": QUIC, "sctp": SCTP} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("parse %s: got %v, %v", text, got, err)
		}
	}
	type link struct {
		Over  Kind `json:"over"`
		Maybe Kind `json:"maybe,omitempty"`
	}
	for text, want := range map[string]link{
		`{"over":""}`:                    {},
		`{"over":"quic"}`:                {Over: QUIC},
		`{"over":"sctp","maybe":"quic"}`: {Over: SCTP, Maybe: QUIC},
		`{"over":"tcp"}`:                 {Over: "tcp"}, // of a newer daemon
	} {
		var got link
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("unmarshal %s: got %v, %v, want %v", text, got, err, want)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != text {
			t.Errorf("marshal: got %s, %v, want %s", again, err, text)
		}
	}
}

func TestUnknownKindErrorNamesKinds(t *testing.T) {
	for _, text := range []string{"", "pipe", "hub", "tcp", "QUIC", "quic "} {
		if got, err := Parse(text); err == nil || got != Any || !strings.Contains(err.Error(), "want auto, quic or sctp") {
			t.Errorf("parse %q: got %v, %v", text, got, err)
		}
	}
}
