package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestUnknownMessageIsNoError(t *testing.T) {
	for in, want := range map[string]uint{
		"82 0c a0": 12, "82 00 a0": 0, "82 1b7fffffffffffffff a10102": math.MaxInt64, "82 18 63 f6": 99,
	} {
		m, err := ParseMessage(unhex(t, in))
		if err != nil || m != (Unknown{Type: want}) {
			t.Errorf("%s: got %+v, %v, want type %d", in, m, err, want)
		}
	}
}

func TestUnknownKeysAreSkipped(t *testing.T) {
	for _, in := range []string{
		"82 08 a2 01 05 02 1903e8",          // a later field
		"82 08 a2 01 05 20 82 81 80 a10101", // a negative key with nested content
		"82 08 a2 01 05 61 31 02",           // a text key "1" is another key than 1
	} {
		m, err := ParseMessage(unhex(t, in))
		if err != nil || m != (Accepted{ID: 5}) {
			t.Errorf("%s: got %+v, %v", in, m, err)
		}
	}
}

func TestHostileMessageIsRefusedByField(t *testing.T) {
	node := "50 0102030405060708090a0b0c0d0e0f10 "
	for _, c := range []struct{ name, hex, want string }{
		{"empty", "", "message: "},
		{"not an array", "a0", "message: "},
		{"one element", "81 01", "message: "},
		{"three elements", "83 08 a10101 00", "message: "},
		{"something behind", "82 08 a10101 00", "message: "},
		{"cut", "82 08 a101", "message: "},
		{"negative type", "82 20 a0", "message: "},
		{"indefinite array", "9f 08 a10101 ff", "indefinite"},
		{"indefinite map", "82 08 bf0101ff", "indefinite"},
		{"indefinite text", "82 0b a1 01 7f6161ff", "indefinite"},
		{"tag", "82 08 a1 01 c101", "tag"},
		{"duplicate key", "82 08 a2 0101 0102", "duplicate"},
		{"duplicate key in a longer form", "82 08 a2 0101 180102", "duplicate"},
		{"duplicate unknown key", "82 08 a3 0101 0901 0901", "duplicate"},
		{"deep", "82 08 a2 0101 09" + strings.Repeat("81", 8) + "00", "nested"},
		{"giant array", "82 02 a1 02 9a7fffffff", "exceeded"},
		{"giant array of nothing", "82 02 a1 02 990801" + strings.Repeat("a0", 2049), "exceeded"},
		{"giant map", "82 08 ba7fffffff", "exceeded"},
		{"giant text", "82 0b a1 01 7a7fffffff", "message: "},
		{"no map", "82 0b f6", "bye: fields: not a map"},
		{"map in a string", "82 0b 41a0", "bye: fields: not a map"},
		{"key that is an array", "82 08 a2 0101 80 00", "message accepted"},
		{"text for a number", "82 08 a1 01 6131", "message accepted"},
		{"float for a number", "82 08 a1 01 f93c00", "message accepted"},
		{"bytes for a text", "82 0b a1 01 4161", "message bye"},
		{"invalid UTF-8", "82 0b a1 01 61ff", "message"},
		{"id 0", "82 08 a1 01 00", "accepted: id: missing"},
		{"no id", "82 06 a0", "unsubscribe: id: missing"},
		{"id beyond 32 bits", "82 08 a1 01 1b0000000100000000", "message accepted"},
		{"negative id", "82 08 a1 01 20", "message accepted"},
		{"hello of nothing", "82 01 a0", "hello: version: 0 is not in 1"},
		{"negative version", "82 01 a3 0120 026161 03" + node, "version: -1"},
		{"hello without host", "82 01 a2 0101 03" + node, "host: missing"},
		{"hello without node", "82 01 a2 0101 026161", "node: missing"},
		{"node of 15 bytes", "82 01 a3 0101 026161 03 4f0102030405060708090a0b0c0d0e0f", "node: not a byte string of 16"},
		{"node of 17 bytes", "82 01 a3 0101 026161 03 510102030405060708090a0b0c0d0e0f1011", "node: not a byte string of 16"},
		{"node of numbers", "82 01 a3 0101 026161 03 90" + strings.Repeat("01", 16), "node: not a byte string of 16"},
		{"origin node of 1 byte", "82 02 a1 02 81 a4 016161 0201 0301 06 a3 014101 026161 036161", "node: not a byte string of 16"},
		{"origin without host", "82 02 a1 02 81 a4 016161 0201 0301 06 a2 01" + node + "036161", "channels[0]: a: origin: host: missing"},
		{"channel without frames", "82 02 a1 02 81 a2 016161 0301", "channels[0]: a: frame count: 0"},
		{"negative frame size", "82 02 a1 02 81 a3 016161 0201 0320", "frame size: -1"},
		{"frame size above MaxFrame", "82 02 a1 02 81 a3 016161 0201 031a04000001", "frame size: 67108865"},
		{"frame count too large", "82 02 a1 02 81 a3 016161 021a01000001 0301", "frame count: 16777217"},
		{"channel null", "82 02 a1 02 81 f6", "channels[0]: name: missing"},
		{"gone name", "82 02 a1 03 81 612f", `gone[0]: name "/"`},
		{"name with a dot first", "82 03 a2 0101 02 622e61", `channel ".a": begins with a dot`},
		{"name with NUL", "82 03 a2 0101 02 626100", `channel "a\x00": has a byte`},
		{"name of 64 bytes", "82 03 a2 0101 02 7840" + strings.Repeat("61", 64), "channel: longer than 63"},
		{"bad push name", "82 07 a3 0101 026161 03632e2e2f", `as "../": begins with a dot`},
		{"negative budget", "82 05 a2 0101 02 a1 0120", "budget: -1ns is negative"},
		{"budget beyond 63 bits", "82 05 a2 0101 02 a1 011bffffffffffffffff", "message update"},
		{"priority 8", "82 05 a2 0101 02 a1 0308", "priority: 8 is not in 0 … 7"},
		{"mode 256", "82 05 a2 0101 02 a1 04190100", "message update"},
		{"refused nothing", "82 09 a1 0301", "type refused: missing"},
		{"code 0", "82 09 a1 0203", "code: 0"},
		{"long text", "82 0b a1 01 790401" + strings.Repeat("61", 1025), "reason: longer than 1024"},
		{"escape sequence", "82 0b a1 01 621b63", "reason: not printable"},
		{"account without id", "82 0a a1 01 81 a1 0205", "accounts[0]: id: missing"},
		{"negative count", "82 0a a1 01 81 a2 0101 0220", "message ledger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ParseMessage(unhex(t, c.hex))
			if err == nil || !strings.HasPrefix(err.Error(), "message") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v and error %v, want one with %q", m, err, c.want)
			}
		})
	}
	if _, err := ParseMessage(make([]byte, MaxMessage+1)); err == nil {
		t.Error("a message above MaxMessage was accepted")
	}
}

func TestAppendRefusesWhatThePeerWould(t *testing.T) {
	prefix := []byte("before")
	for want, m := range map[string]Message{
		"message hello: version: 0":                  Hello{Host: "a", Node: [16]byte{1}},
		"message catalog: channels: 2049":            Catalog{Channels: make([]Channel, MaxChannels+1)},
		"message catalog: gone: 2049":                Catalog{Gone: make([]string, MaxChannels+1)},
		"message catalog: channels[0]: name: miss":   Catalog{Channels: make([]Channel, 1)},
		"message ledger: accounts: 2049":             Ledger{Channels: make([]Account, MaxChannels+1)},
		"message subscribe: id: missing":             Subscribe{Channel: "a"},
		"message subscribed: frame count: 0":         Subscribed{ID: 1},
		"message update: priority: -1":               Update{ID: 1, QoS: QoS{Priority: -1}},
		"message offer: as \"a b\":":                 Offer{ID: 1, Channel: "a", As: "a b"},
		"message bye: reason: not printable":         Bye{Reason: "a\nb"},
		"message of type 99: cannot be sent":         Unknown{Type: 99},
		"message refused: code: 65536 is not in 1 …": Refused{Re: TypeHello, Code: 1 << 16},
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

func TestEveryProblemOfAMessageIsNamed(t *testing.T) {
	_, err := AppendMessage(nil, Hello{})
	for _, field := range []string{"version", "host", "node"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want it to name %s", err, field)
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

// The limits are chosen so that no message within them can be too long.
func TestLargestMessagesFit(t *testing.T) {
	for _, m := range []Message{largestCatalog(), largestLedger()} {
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

func TestHostileMessageCostsLittleMemory(t *testing.T) {
	// The message that makes the most of its bytes: empty maps where channels are large.
	body := append(unhex(t, "82 02 a1 02 990800"), bytes.Repeat([]byte{0xa0}, 2048)...)
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

func TestTextCanAlwaysBeSent(t *testing.T) {
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

func TestCodesPrintThemselves(t *testing.T) {
	for code, want := range map[Code]string{CodeVersion: "version not served", CodeFailed: "failed", 0: "code 0", 99: "code 99", -1: "code -1"} {
		if got := code.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func largestCatalog() Catalog {
	name := strings.Repeat("x", MaxName)
	origin := &Origin{Node: [16]byte{15: 1}, Host: name, Channel: name}
	m := Catalog{Full: true}
	for range MaxChannels {
		m.Channels = append(m.Channels, Channel{
			Name: name, FrameCount: MaxFrameCount, FrameSize: MaxFrame,
			Epoch: math.MaxUint64, LastSeq: math.MaxUint64, Origin: origin,
		})
		m.Gone = append(m.Gone, name)
	}
	return m
}

func largestLedger() Ledger {
	const n = math.MaxUint64
	a := Account{
		ID: math.MaxUint32, Offered: n, Delivered: n, LateKept: n, Superseded: n, RateLimited: n, Expired: n, Lost: n,
		Late: n, Refused: n, Overflow: n, InFlight: n, Duplicate: n, Repaired: n,
	}
	var m Ledger
	for range MaxChannels {
		m.Channels = append(m.Channels, a)
	}
	return m
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
