package hub

import (
	"strconv"
	"strings"
	"testing"
)

func TestGuardPassesServerMessages(t *testing.T) {
	var p protocol
	for range 3 {
		for _, line := range []string{"INFO {\"a\":1}\r\n", "PING\r\n", "+OK\r\n", "-ERR 'Slow'\r\n", "MSG a.b 1 5\r\nhello\r\n", "msg a.b 1 _INBOX.x 0\r\n\r\n",
			"HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", "MSG a 1 " + strconv.Itoa(maxMessage) + "\r\n" + strings.Repeat("\n", maxMessage) + "\r\n"} {
			for i := 0; i < len(line); {
				n := min(1+i*7%61, len(line)-i)
				if err := p.take([]byte(line[i : i+n])); err != nil {
					t.Fatalf("%.20q: %v", line, err)
				}
				i += n
			}
		}
	}
	if p.body != 0 || p.tail != "" || len(p.line) != 0 {
		t.Errorf("got %d bytes, %q and %q to come, want none", p.body, p.tail, p.line)
	}
}

func TestGuardRefusesOversizeAndMalformedMessages(t *testing.T) {
	for _, text := range []string{
		"MSG a 1 " + strconv.Itoa(maxMessage+1) + "\r\n",
		"HMSG a 1 12 2000000000\r\n",
		"\tMSG a 1 2000000000\r\n",
		"MSG a 1 99999999999999999999\r\n",
		"MSG a 1 -1\r\n",
		"MSG a 1\r 55\n",
		"MSG a 1 5\r\nhello, world\r\n",
		"MSG a 1 5\r\nhello\n",
		"MSG a 1 5\r\nhello \r\n",
		"INFO " + strings.Repeat("x", maxLine),
	} {
		var p protocol
		if err := p.take([]byte(text)); err == nil {
			t.Errorf("%.40q: got no error", text)
		}
	}
}

func FuzzGuardMemory(f *testing.F) {
	f.Add("MSG a 1 5\r\nhello\r\nPING\r\n", 3)
	f.Add("HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", 1)
	f.Fuzz(func(t *testing.T, text string, step int) {
		var whole, parts protocol
		want := whole.take([]byte(text))
		step = max(1, step%100)
		for i := 0; i < len(text); i += step {
			if got := parts.take([]byte(text[i:min(i+step, len(text))])); got != nil {
				if want == nil {
					t.Errorf("got %v in parts, and no error as a whole", got)
				}
				return
			}
			if len(parts.line) > maxLine || parts.body > maxMessage {
				t.Fatalf("got %d bytes kept, %d announced", len(parts.line), parts.body)
			}
		}
		if want != nil {
			t.Errorf("got no error in parts, %v as a whole", want)
		}
	})
}
