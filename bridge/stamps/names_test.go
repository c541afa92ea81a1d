package stamps

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"

	"achbridge/bridge/layout"
)

// ofProto returns the layout of message M of a .proto file.
func ofProto(t *testing.T, text string) *layout.Layout {
	t.Helper()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"m.proto": text})}}
	files, err := c.Compile(t.Context(), "m.proto")
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.OfMessage(files[0].Messages().ByName("M"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const command = `syntax = "proto2";
message Time { required int64 sec = 1; optional int32 nsec = 2; }
message Meta { optional Time time = 2; optional Time until = 3; }
message M { optional Meta meta = 15; optional double stamp = 1; repeated int64 list = 2; optional sint64 zigzag = 3; optional fixed64 fixed = 4; optional int32 half = 5; }`

func TestNamesOfMessageFieldsMeanTheirNumbers(t *testing.T) {
	l := ofProto(t, command)
	frame := []byte("\x7a\x0e\x12\x05\x08\x90\x1c\x10\x05\x1a\x05\x08\x91\x1c\x10\x05") // time 3600.000000005, until 3601.000000005
	byNames, err := Rule("time:meta.time.sec+meta.time.nsec;until:meta.until.sec+meta.until.nsec").Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	byNumbers, err := Somatic.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	by := By{Time: time.Hour, Expiry: time.Hour}
	got, expiry, err := byNames.Shift(nil, frame, by)
	want, wantExpiry, wantErr := byNumbers.Shift(nil, frame, by)
	if err != nil || wantErr != nil || !bytes.Equal(got, want) || bytes.Equal(got, frame) || expiry != wantExpiry || expiry.At != 7201*time.Second+5 {
		t.Errorf("got %x, %v, %v, want %x, %v, %v", got, expiry, err, want, wantExpiry, wantErr)
	}
	for text, want := range map[string]string{
		"time:stamp":                        "",
		"time:none":                         "time: none: M has no field none",
		"time:meta.none":                    "time: meta.none: Meta has no field none",
		"time:list":                         "time: list: list is repeated or a map: want a single value",
		"time:meta":                         "time: meta is message: want one of [int64 uint64 double]",
		"time:stamp.sec":                    "time: stamp.sec: stamp is not a message",
		"time:zigzag":                       "time: zigzag is sint64",
		"time:fixed":                        "time: fixed is fixed64",
		"time:half":                         "time: half is int32",
		"time:meta.time.sec+meta.until.sec": "time: 15.2.1 and 15.3.1 are fields of different messages",
		"time:stamp+half":                   "time: stamp is double: want one of [int32 uint32 int64 uint64]",
	} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Compile(l); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestGuessFindsMetadataOfSomatic(t *testing.T) {
	for text, want := range map[string]Rule{
		command: Somatic,
		strings.Replace(command, "meta = 15", "meta = 16", 1):                                 "",
		strings.Replace(command, "Time until", "M until", 1):                                  "",
		`syntax = "proto3"; message M { int64 sec = 1; int64 dur_nsec = 2; int32 nsec = 3; }`: "",
	} {
		if got := Guess(ofProto(t, text)); got != want {
			t.Errorf("%s: Guess = %q, want %q", text, got, want)
		}
	}
}
