package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestUnknownMessageIsNoError(t *testing.T) {
	for in, want := range map[string]uint{
		"82 18 2d a0": 45, "82 00 a0": 0, "82 1b7fffffffffffffff a10102": math.MaxInt64, "82 18 63 f6": 99,
	} {
		m, err := ParseMessage(fromHex(t, in))
		if err != nil || m != (Unknown{Type: want}) {
			t.Errorf("%s: got %+v, %v, want type %d", in, m, err, want)
		}
	}
}

func TestUnknownKeysAreSkipped(t *testing.T) {
	for _, in := range []string{
		"82 08 a2 01 05 02 1903e8",          // a later field
		"82 08 a2 01 05 20 82 81 80 a10101", // a negative key with nested content
		"82 08 a2 01 05 61 31 02",           // text key "1", which is not key 1
	} {
		m, err := ParseMessage(fromHex(t, in))
		if err != nil || m != (Accepted{ID: 5}) {
			t.Errorf("%s: got %+v, %v", in, m, err)
		}
	}
}

func TestAppendMessageRefusesInvalidMessages(t *testing.T) {
	prefix := []byte("before")
	for want, m := range map[string]Message{
		"message hello: version: 0":                                   Hello{Host: "a", Node: [16]byte{1}},
		"message catalog: channels: 2049":                             Catalog{Channels: make([]Channel, MaxChannels+1)},
		"message catalog: gone: 2049":                                 Catalog{Gone: make([]string, MaxChannels+1)},
		"message catalog: channels[0]: name: miss":                    Catalog{Channels: make([]Channel, 1)},
		"message ledger: accounts: 2049":                              Counters{Serving: make([]FrameCounters, MaxChannels), Holding: make([]FrameCounters, 1)},
		"message ledger: holding[0]: id: missing":                     Counters{Holding: make([]FrameCounters, 1)},
		"message ledger: holding[0]: transit: 922337203685":           Counters{Holding: []FrameCounters{{ID: 1, OneWayDelay: 1 << 63}}},
		"message ledger: holding[0]: cause: longer than":              Counters{Holding: []FrameCounters{{ID: 1, Cause: strings.Repeat("a", 33)}}},
		"message ledger: holding[0]: cause: \"No\" is no word":        Counters{Holding: []FrameCounters{{ID: 1, Cause: "No"}}},
		"message ledger: path: full: 9223372036854775808":             Counters{Path: &Path{Full: 1 << 63}},
		"message ledger: path: waited: 101 is not in 0 … 100":         Counters{Path: &Path{Waited: 101}},
		"message subscribe: id: missing":                              Subscribe{Channel: "a"},
		"message subscribe: held: id: missing":                        Subscribe{ID: 1, Channel: "a", Held: FrameCounters{Late: 1}},
		"message subscribed: frame count: 0":                          Subscribed{ID: 1},
		"message update: priority: -1":                                Update{ID: 1, QoS: QoS{Priority: -1}},
		"message offer: as \"a b\":":                                  Offer{ID: 1, Channel: "a", As: "a b"},
		"message bye: reason: has characters that cannot be printed":  Bye{Reason: "a\nb"},
		"message revocations: list: 0 is not in 1 …":                  Revocations{},
		"message revocations: list: 65537 is not in 1 …":              Revocations{List: make([]byte, MaxRevocations+1)},
		"message describe: id: missing":                               Describe{Channel: "a"},
		"message describe: channel: missing":                          Describe{ID: 1},
		"message layout: id: missing":                                 Layout{Encoded: []byte{1}},
		"message layout: packed: 0 is not in 1 … 65536":               Layout{ID: 1},
		"message layout: packed: 65537 is not in 1 … 65536":           Layout{ID: 1, Encoded: make([]byte, MaxLayout+1)},
		"message key: id: missing":                                    Key{KeyID: make([]byte, 8), Key: make([]byte, 32)},
		"message key: key id: 7 bytes, want 8":                        Key{Sub: 1, KeyID: make([]byte, 7), Key: make([]byte, 32)},
		"message key: key: 33 bytes, want 32":                         Key{Sub: 1, KeyID: make([]byte, 8), Key: make([]byte, 33)},
		"message stamp: t1: missing":                                  Stamp{T2: 1, T3: 1},
		"message stamp: t3: without t2":                               Stamp{T1: 1, T3: 1},
		"message stamp: t3: 2 is before t2, 3":                        Stamp{T1: 1, T2: 3, T3: 2},
		"message stamp: t1: 9223372036854775808 is not in":            Stamp{T1: 1 << 63},
		"message stamp: t3: 9223372036854775808 is not in":            Stamp{T1: 1, T2: 1, T3: 1 << 63},
		"message pulled: id: missing":                                 Pulled{Received: 1},
		"message newest: id: missing":                                 Newest{Seq: 1},
		"message newest: seq: 0":                                      Newest{Sub: 1},
		"message query: id: missing":                                  Query{Channel: "a"},
		"message query: channel: missing":                             Query{ID: 1},
		"message take: id: missing":                                   Take{Channel: "a"},
		"message take: channel: missing":                              Take{ID: 1},
		"message take: for: -1 is not in 0":                           Take{ID: 1, Channel: "a", For: -1},
		"message take: for: 31622400000000001 is not in 0":            Take{ID: 1, Channel: "a", For: MaxHold + 1},
		"message release: to \"a b\":":                                Release{ID: 1, Channel: "a", To: "a b"},
		"message holderquery: channel: missing":                       HolderQuery{ID: 1},
		"message holder: channel: missing":                            Holder{ID: 1},
		"message holder: left: -1 is not in 0":                        Holder{Channel: "a", Left: -1},
		"message holder: generation: 0 with host \"pc\"":              Holder{Channel: "a", Host: "pc"},
		"message holder: generation: 7 with host \"\"":                Holder{Channel: "a", Generation: 7},
		"message edit: id: missing":                                   Edit{Channel: "a", Fields: []FieldEdit{{Path: "x"}}},
		"message edit: fields: 0 is not in 1":                         Edit{ID: 1, Channel: "a"},
		"message edit: fields: 65 is not in 1":                        Edit{ID: 1, Channel: "a", Fields: make([]FieldEdit, 65)},
		"message edit: fields[0]: path: missing":                      Edit{ID: 1, Channel: "a", Fields: []FieldEdit{{Value: "1"}}},
		"message edit: fields[1]: value: has characters that cannot":  Edit{ID: 1, Channel: "a", Fields: []FieldEdit{{Path: "x"}, {Path: "y", Value: "\a"}}},
		"message edited: before: 0 is not in 1":                       Edited{ID: 1, Seq: 1},
		"message edited: after: 0 is not in 1":                        Edited{ID: 1, Seq: 1, Before: []string{"1"}},
		"message edited: seq: missing":                                Edited{ID: 1, Before: []string{"1"}, After: []string{"2"}},
		"message edited: before: longer than":                         Edited{ID: 1, Seq: 1, Before: []string{strings.Repeat("x", 2000)}, After: []string{"2"}},
		"message load: id: missing":                                   Load{For: 1},
		"message load: for: 10000000001 is not in 0":                  Load{ID: 1, For: MaxLoad + 1},
		"message load: for: -1 is not in 0":                           Load{ID: 1, For: -1},
		"message of type 99: cannot be sent":                          Unknown{Type: 99},
		"message refused: code: 65536 is not in 1 …":                  Refused{Re: TypeHello, Code: 1 << 16},
		"message catalog: channels[0]: a: largest: 67108865":          Catalog{Channels: []Channel{{Name: "a", FrameCount: 1, FrameSize: 1, Largest: MaxFrame + 1}}},
		"message catalog: channels[0]: a: clock: boot: missing":       Catalog{Channels: []Channel{{Name: "a", FrameCount: 1, FrameSize: 1, Clock: &Clock{Node: [16]byte{1}, Host: "b"}}}},
		"message catalog: channels[0]: a: clock: error: -1 is not in": Catalog{Channels: []Channel{{Name: "a", FrameCount: 1, FrameSize: 1, Clock: &Clock{Node: [16]byte{1}, Host: "b", Boot: [16]byte{1}, Error: -1}}}},
		"message catalog: channels[0]: a: clock: offset: 5764607523":  Catalog{Channels: []Channel{{Name: "a", FrameCount: 1, FrameSize: 1, Clock: &Clock{Node: [16]byte{1}, Host: "b", Boot: [16]byte{1}, Offset: MaxClockOffset + 1}}}},
		"message offer: stamps: longer than 1024 bytes":               Offer{ID: 1, Channel: "a", Stamps: strings.Repeat("a", 1025)},
	} {
		b, err := AppendMessage(prefix, m)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got error %v, want %q", m, err, want)
		}
		if string(b) != "before" {
			t.Errorf("%q: got %q, want dst as it was", want, b)
		}
	}
}

func TestMessageSizeIsLimited(t *testing.T) {
	for n, ok := range map[uint32]bool{0: false, 1: true, MaxMessage: true, MaxMessage + 1: false, math.MaxUint32: false} {
		size, err := MessageSize([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		if (err == nil) != ok || ok && size != int(n) {
			t.Errorf("%d: got %d, %v", n, size, err)
		}
	}
}

func TestFormattedKeyOmitsTheSecret(t *testing.T) {
	m := Key{Sub: 7, KeyID: make([]byte, keyIDSize), Key: bytes.Repeat([]byte{0xab}, keySize)}
	var inside struct{ M Message }
	inside.M = m
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		for _, v := range []any{m, &m, inside} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "171") || strings.Contains(text, "ab") || strings.Contains(text, "6162") {
				t.Errorf("%s: got %s, want no secret", format, text)
			}
		}
	}
}

// The other limits must bound every message to less than MaxMessage.
func TestLargestMessagesFit(t *testing.T) {
	for _, m := range []Message{largestCatalog(), largestCounters(), Layout{ID: math.MaxUint32, Encoded: make([]byte, MaxLayout)}} {
		b, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseMessage(b[4:])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%T came back changed", m)
		}
	}
}

func TestHostileMessageMemoryIsBounded(t *testing.T) {
	// An empty map of one byte decodes into a Channel, the largest element of any list.
	body := append(fromHex(t, "82 02 a1 02 990800"), bytes.Repeat([]byte{0xa0}, 2048)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ParseMessage(body); err == nil {
		t.Fatal("channels without a name were accepted")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("got %d bytes allocated for %d of input", got, len(body))
	}
}

func TestTextResultIsAlwaysValid(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"no such channel":              "no such channel",
		"a\nb\x1b[2J":                  "a?b?[2J",
		"\xff":                         "?",
		strings.Repeat("é", 600):       strings.Repeat("é", 512),
		"a" + strings.Repeat("é", 600): "a" + strings.Repeat("é", 511),
	} {
		got := Text(in)
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if _, err := AppendMessage(nil, Bye{Reason: got}); err != nil {
			t.Error(err)
		}
	}
}

func TestCodeString(t *testing.T) {
	for code, want := range map[Code]string{CodeVersion: "version not served", CodeFailed: "failed", 0: "code 0", 99: "code 99", -1: "code -1"} {
		if got := code.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func largestCatalog() Catalog {
	name := strings.Repeat("x", MaxName)
	origin := &Origin{Node: [16]byte{15: 1}, Host: name, Channel: name}
	clock := &Clock{Node: [16]byte{15: 1}, Host: name, Boot: [16]byte{15: 1}, Offset: -MaxClockOffset, Error: MaxClockOffset}
	m := Catalog{Full: true}
	for range MaxChannels {
		m.Channels = append(m.Channels, Channel{
			Name: name, FrameCount: MaxFrameCount, FrameSize: MaxFrame,
			Epoch: math.MaxUint64, LastSeq: math.MaxUint64, Origin: origin, Closed: true, Largest: MaxFrame, Layout: Hash{31: 1}, Clock: clock, Kernel: true,
		})
		m.Gone = append(m.Gone, name)
	}
	return m
}

func largestCounters() Counters {
	const n = math.MaxUint64
	a := FrameCounters{
		ID: math.MaxUint32, Offered: n, Delivered: n, LateKept: n, Superseded: n, RateLimited: n, Expired: n, Lost: n,
		Late: n, Refused: n, Overflow: n, InFlight: n, Duplicate: n, Repaired: n,
	}
	var m Counters
	for range MaxChannels / 2 {
		m.Serving = append(m.Serving, a)
		m.Holding = append(m.Holding, a)
	}
	return m
}

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
