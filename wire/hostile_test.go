package wire

import (
	"strings"
	"testing"
)

// hostile is input that must be refused with an error that contains want.
type hostile struct{ name, hex, want string }

const (
	frame = "01 01 00000001 01 00 " // a frame up to captured
	part  = "02 01 00000001 01 00 "
	huge  = "ffffffffffffffffff01"
	id    = "50 0102030405060708090a0b0c0d0e0f10 " // a node ID
)

var hostileDatagrams = []hostile{
	{"empty", "", "packet number: cut short"},
	{"number 0", "00 00", "packet number: 0 is not in 1"},
	{"number beyond 63 bits", huge + "00", "packet number: 18446744073709551615 is not in"},
	{"number overlong", "8100 00", "packet number: varint longer than needed"},
	{"number endless", "8080808080808080808080 00", "packet number: varint longer than 64 bits"},
	{"no send time", "01", "send time: cut short"},
	{"send time beyond 63 bits", "01" + huge, "send time: "},
	{"type 0", "01 00 00", "entry 1: type: 0x00 is unknown"},
	{"type 5", "01 00" + frame + "01 aa 05", "entry 2: type: 0x05"},
	{"sub 0", "01 00 01 00 00000001 01 00 01 aa", "sub: 0"},
	{"sub beyond 32 bits", "01 00 01 8080808010 00000001 01 00 01 aa", "sub: 4294967296"},
	{"epoch cut", "01 00 01 01 000000", "epoch: cut short"},
	{"seq 0", "01 00 01 01 00000001 00 00 01 aa", "seq: 0"},
	{"captured before the clock", "01 05 01 01 00000001 01 06 01 aa", "captured: 6 is not in 0 … 5"},
	{"captured overlong", "01 05 01 01 00000001 01 8100 01 aa", "captured: varint longer"},
	{"frame of nothing", "01 00" + frame + "00", "frame size: 0"},
	{"frame above MaxFrame", "01 00" + frame + "81808020 aa", "frame size: 67108865"},
	{"frame size of 2^63", "01 00" + frame + "80808080808080808001 aa", "frame size: 9223372036854775808"},
	{"frame cut", "01 00" + frame + "02 aa", "frame data: cut short"},
	{"part above MaxFrame", "01 00" + part + "81808020 00 01 aa", "part size: 67108865"},
	{"part of nothing", "01 00" + part + "00 00 01", "part size: 0"},
	{"part index at count", "01 00" + part + "04 02 02 aaaa", "part index: 2 is not in 0 … 1"},
	{"part count 0", "01 00" + part + "04 00 00 aa", "part count: 0"},
	{"too many parts", "01 00" + part + "80808020 00 818004 aa", "part count: 65537"},
	{"more parts than bytes", "01 00" + part + "02 00 03 aa", "part count: 2 bytes cannot be in 3 parts"},
	{"parts left empty", "01 00" + part + "0a 00 06 aaaa", "part count: 10 bytes cannot be in 6 parts"},
	{"part cut", "01 00" + part + "04 00 02 aa", "part data: cut short"},
	{"last part longer", "01 00" + part + "03 01 02 aaaa", "entry 2: type: 0xaa"},
	{"newest 0", "01 00 03 00 0000000000000000 00 00 00", "feedback newest: 0"},
	{"bitmap below packet 1", "01 00 03 01 0000000000000001 00 00 00", "feedback bitmap: has a packet below"},
	{"bitmap below packet 1 at 64", "01 00 03 40 8000000000000000 00 00 00", "feedback bitmap: has a packet below"},
	{"17 arrivals", "01 00 03 05 000000000000000f 11 00 00", "feedback arrivals: 17 is not in 0 … 16"},
	{"arrival of newest", "01 00 03 05 000000000000000f 01 00 00 00 00", "arrival back: 0"},
	{"arrival of no packet", "01 00 03 05 000000000000000e 01 01 00 00 00", "arrival back: of a packet"},
	{"arrival beyond the bitmap", "01 00 03 80 01 ffffffffffffffff 01 41 00 00 00", "arrival back: 65"},
	{"arrival twice", "01 00 03 05 000000000000000f 02 01 00 01 00 00 00", "arrival back: not increasing"},
	{"arrival before the clock", "01 00 03 05 000000000000000f 01 01 07 06 00", "feedback arrived: 6 is not in 7"},
	{"9 gaps", "01 00 03 01 0000000000000000 00 00 09", "feedback gaps: 9"},
	{"gap of sub 0", "01 00 03 01 0000000000000000 00 00 01 00 01 00 01", "gap sub: 0"},
	{"gap of seq 0", "01 00 03 01 0000000000000000 00 00 01 01 00 00 01", "gap seq: 0"},
	{"gap of nothing", "01 00 03 01 0000000000000000 00 00 01 01 01 00 00", "gap count: 0"},
	{"gap past MaxParts", "01 00 03 01 0000000000000000 00 00 01 01 01 ffff03 02", "gap count: 2 is not in 1 … 1"},
	{"unknown codec", "01 00 61 01 00000001 01 00 01 01 aa", "type: codec: 3 is not in 0 … 2"},
	{"codec and a later bit", "01 00 a1 01 00000001 01 00 01 01 aa", "type: codec: 5 is not in 0 … 2"},
	{"part of an unknown codec", "01 00 72 01 00000001 01 00 01 01 00 01 aa", "type: codec: 3"},
	{"raw size 0", "01 00 21 01 00000001 01 00 00 01 aa", "raw size: 0 is not in 1"},
	{"raw size above MaxFrame", "01 00 41 01 00000001 01 00 81808020 01 aa", "raw size: 67108865"},
	{"raw size of 2^63", "01 00 22 01 00000001 01 00 80808080808080808001 01 00 01 aa", "raw size: 9223372036854775808"},
	{"raw size cut", "01 00 21 01 00000001 01 00", "raw size: cut short"},
	{"owed feedback", "01 00 13 01 0000000000000000 00 00 00", "type: 0x13 is unknown"},
	{"owed mark", "01 00 14 01 01", "type: 0x14 is unknown"},
	{"compressed mark", "01 00 24 01 01", "type: 0x24 is unknown"},
	{"mark of sub 0", "01 00 04 00 01", "mark sub: 0"},
	{"mark of sub beyond 32 bits", "01 00 04 8080808010 01", "mark sub: 4294967296"},
	{"mark of nothing", "01 00 04 01 00", "mark bytes: 0 is not in 1"},
	{"mark beyond 63 bits", "01 00 04 01 80808080808080808001", "mark bytes: 9223372036854775808"},
	{"mark cut", "01 00 04 01", "mark bytes: cut short"},
	{"feedback cut", "01 00 03 01 00000000000000", "feedback bitmap: cut short"},
}

var hostileMessages = []hostile{
	{"empty", "", "message: "},
	{"not an array", "a0", "message: "},
	{"one element", "81 01", "message: "},
	{"three elements", "83 08 a10101 00", "message: "},
	{"something behind", "82 08 a10101 00", "message: "},
	{"cut", "82 08 a101", "message: "},
	{"negative type", "82 20 a0", "message: "},
	{"load of an hour", "82 0d a2 01 01 02 1b000003465d70d000", "for: "},
	{"load of less than no time", "82 0d a2 01 01 02 20", "for: -1 is not in 0"},
	{"load without id", "82 0d a1 02 01", "id: missing"},
	{"load up as a number", "82 0d a2 01 01 03 01", "load"},
	{"describe without id", "82 0e a1 02 6161", "describe: id: missing"},
	{"describe of a path", "82 0e a2 0101 02 632e2e2f", `describe: channel "../": begins with a dot`},
	{"layout without id", "82 0f a1 02 4101", "layout: id: missing"},
	{"layout of nothing", "82 0f a1 0101", "layout: packed: 0 is not in 1 … 65536"},
	{"layout as text", "82 0f a2 0101 02 6161", "message layout"},
	{"layout above 64 KiB", "82 0f a2 0101 02 5a00010001" + strings.Repeat("00", MaxLayout+1), "layout: packed: 65537 is not in 1 … 65536"},
	{"layout hash of 31 bytes", "82 02 a1 02 81 a4 016161 0201 0301 09 581f" + strings.Repeat("01", 31), "layout: not a byte string of 32"},
	{"layout hash of 33 bytes", "82 02 a1 02 81 a4 016161 0201 0301 09 5821" + strings.Repeat("01", 33), "layout: not a byte string of 32"},
	{"layout hash of numbers", "82 02 a1 02 81 a4 016161 0201 0301 09 9820" + strings.Repeat("01", 32), "layout: not a byte string of 32"},
	{"layout hash as text", "82 02 a1 02 81 a4 016161 0201 0301 09 7820" + strings.Repeat("61", 32), "layout: not a byte string of 32"},
	{"key without id", "82 10 a2 02 48" + strings.Repeat("01", 8) + "03 5820" + strings.Repeat("01", 32), "key: id: missing"},
	{"key id of 9 bytes", "82 10 a3 0101 02 49" + strings.Repeat("01", 9) + "03 5820" + strings.Repeat("01", 32), "key: key id: 9 bytes, want 8"},
	{"key of 31 bytes", "82 10 a3 0101 02 48" + strings.Repeat("01", 8) + "03 581f" + strings.Repeat("01", 31), "key: key: 31 bytes, want 32"},
	{"key as text", "82 10 a3 0101 02 48" + strings.Repeat("01", 8) + "03 7820" + strings.Repeat("61", 32), "message key"},
	{"negative counter", "82 10 a4 0101 02 48" + strings.Repeat("01", 8) + "03 5820" + strings.Repeat("01", 32) + "04 20", "message key"},
	{"stamp of nothing", "82 11 a0", "stamp: t1: missing"},
	{"stamp that answers before it was asked", "82 11 a3 0101 0203 0302", "stamp: t3: 2 is before t2, 3"},
	{"stamp beyond 63 bits", "82 11 a1 01 1b8000000000000000", "stamp: t1: 9223372036854775808"},
	{"negative stamp", "82 11 a1 0120", "message stamp"},
	{"pulled for no subscription", "82 12 a1 0205", "pulled: id: missing"},
	{"pulled a negative count", "82 12 a2 0101 0220", "message pulled"},
	{"newest of no frame", "82 13 a1 0101", "newest: seq: 0"},
	{"newest of no subscription", "82 13 a1 0201", "newest: id: missing"},
	{"query without id", "82 14 a1 02 6161", "query: id: missing"},
	{"query of a path", "82 14 a2 0101 02 632e2e2f", `query: channel "../": begins with a dot`},
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
	{"negative version", "82 01 a3 0120 026161 03" + id, "version: -1"},
	{"hello without host", "82 01 a2 0101 03" + id, "host: missing"},
	{"hello without node", "82 01 a2 0101 026161", "node: missing"},
	{"node of 15 bytes", "82 01 a3 0101 026161 03 4f0102030405060708090a0b0c0d0e0f", "node: not a byte string of 16"},
	{"node of 17 bytes", "82 01 a3 0101 026161 03 510102030405060708090a0b0c0d0e0f1011", "node: not a byte string of 16"},
	{"node of numbers", "82 01 a3 0101 026161 03 90" + strings.Repeat("01", 16), "node: not a byte string of 16"},
	{"origin node of 1 byte", "82 02 a1 02 81 a4 016161 0201 0301 06 a3 014101 026161 036161", "node: not a byte string of 16"},
	{"clock of 1 byte", "82 02 a1 02 81 a4 016161 0201 0301 0a a3 014101 026161 0350" + strings.Repeat("01", 16), "node: not a byte string of 16"},
	{"clock without host", "82 02 a1 02 81 a4 016161 0201 0301 0a a2 01" + id + "0350" + strings.Repeat("01", 16), "channels[0]: a: clock: host: missing"},
	{"clock far behind", "82 02 a1 02 81 a4 016161 0201 0301 0a a4 01" + id + "026161 0350" + strings.Repeat("01", 16) + "04 3b7fffffffffffffff", "channels[0]: a: clock: offset: -9223372036854775808 is not in"},
	{"origin without host", "82 02 a1 02 81 a4 016161 0201 0301 06 a2 01" + id + "036161", "channels[0]: a: origin: host: missing"},
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
	{"priority 9", "82 05 a2 0101 02 a1 0309", "priority: 9 is not in 0 … 8"},
	{"negative priority", "82 05 a2 0101 02 a1 0320", "priority: -1"},
	{"class 256", "82 05 a2 0101 02 a1 07190100", "message update"},
	{"negative have seq", "82 05 a2 0101 0320", "message update"},
	{"owed that is a number", "82 05 a2 0101 0401", "message update"},
	{"mode 256", "82 05 a2 0101 02 a1 04190100", "message update"},
	{"refused nothing", "82 09 a1 0301", "type refused: missing"},
	{"code 0", "82 09 a1 0203", "code: 0"},
	{"long text", "82 0b a1 01 790401" + strings.Repeat("61", 1025), "reason: longer than 1024"},
	{"escape sequence", "82 0b a1 01 621b63", "reason: has characters that cannot be printed"},
	{"account without id", "82 0a a1 01 81 a1 0205", "serving[0]: id: missing"},
	{"account without id of the other side", "82 0a a2 01 81 a1 0101 02 81 a0", "holding[0]: id: missing"},
	{"accounts that are too many together", "82 0a a2 01 990400" + strings.Repeat("a10101", 1024) +
		"02 990401" + strings.Repeat("a10101", 1025), "ledger: accounts: 2049 is not in 0 … 2048"},
	{"negative count", "82 0a a1 01 81 a2 0101 0220", "message ledger"},
}

func TestHostileDatagramIsRefusedByField(t *testing.T) {
	for _, c := range hostileDatagrams {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(fromHex(t, c.hex))
			refused(t, err, "datagram: ", c.want)
		})
	}
	_, err := Parse(make([]byte, MaxDatagram+1))
	refused(t, err, "datagram: ", "1201 is not in 2 … 1200 bytes")
}

func TestHostileMessageIsRefusedByField(t *testing.T) {
	for _, c := range hostileMessages {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseMessage(fromHex(t, c.hex))
			refused(t, err, "message", c.want)
		})
	}
	_, err := ParseMessage(make([]byte, MaxMessage+1))
	refused(t, err, "message: ", "1048577 is not in 1 … 1048576 bytes")
}

func refused(t *testing.T, err error, object, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), object) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q and %q", err, object, want)
	}
}
