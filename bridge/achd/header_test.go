package achd

import (
	"errors"
	"strings"
	"testing"
)

// parsed parses text line by line, like the server.
func parsed(text string) (request, error) {
	var q request
	for _, line := range strings.Split(text, "\n") {
		done, err := q.add([]byte(line))
		if err != nil {
			return q, err
		}
		if done {
			return q, q.complete()
		}
	}
	return q, errors.New("no end")
}

func TestHeadersAreParsedLikeAchd(t *testing.T) {
	ask := "channel-name: imu\ndirection: push\n"
	want := request{channel: "imu", hasDirection: true}
	with := func(change func(*request)) request { q := want; change(&q); return q }
	for _, c := range []struct {
		name, text string
		want       request
		code       code
	}{
		{"plain", ask + ".\n", want, 0},
		{"equals sign", "channel-name=imu\ndirection = push\n.\n", request{}, badHeader}, // the blank before = belongs to the key
		{"equals sign without blanks", "channel-name=imu\ndirection= push\n.\n", want, 0},
		{"capitals, CR, leading blanks", "  Channel-NAME: imu\r\n\tdirection: push\r\n.\r\n", want, 0},
		{"comments and empty lines", "# hello\n\n" + ask + ".\n", want, 0},
		{"any single character ends", ask + "x\n", want, 0},
		{"a line of blanks ends", ask + "   \n", want, 0},
		{"blank before the colon", "channel-name : imu\n.\n", request{}, badHeader},
		{"blank behind a value", "transport: tcp # c\n" + ask + ".\n", request{}, badHeader},
		{"blank behind a number", ask + "period-ns: 5 # c\n.\n", with(func(q *request) { q.periodNs = 5 }), 0},
		{"colon in a value", "channel-name: a:b\n.\n", request{}, badHeader},
		{"no separator", "hello there\n.\n", request{}, badHeader},
		{"no key", ": there\n.\n", request{}, badHeader},
		{"no value", "channel-name:\n.\n", request{}, badHeader},
		{"unknown key", ask + "colour: red\n.\n", request{}, badHeader},
		{"bad transport", "transport: sctp\n.\n", request{}, badHeader},
		{"bad direction", "direction: sideways\n.\n", request{}, badHeader},
		{"bad boolean", "get-last: 2\n.\n", request{}, badHeader},
		{"bad integer is 0", ask + "period-ns: soon\n.\n", want, 0},
		{"negative period is 0", ask + "period-ns: -7\n.\n", want, 0},
		{"newest", ask + "get-last: aye\n.\n", with(func(q *request) { q.last = true }), 0},
		{"not newest", ask + "get-last: nay\n.\n", want, 0},
		{"push", "channel-name: imu\ndirection: pull\n.\n", with(func(q *request) { q.put = true }), 0},
		{"udp", "remote-port: 4711\ntransport: udp\n" + ask + ".\n", with(func(q *request) { q.udp, q.remotePort = true, 4711 }), 0},
		{"udp without port", "transport: udp\n" + ask + ".\n", request{}, badHeader},
		{"udp with a port too large", "remote-port: 65536\ntransport: udp\n" + ask + ".\n", request{}, badHeader},
		{"without effect", ask + "status: 3\nmessage: m\nframe-size: 9\nframe-count: 9\nlocal-port: 1\nremote-host: h\ntcp-nodelay: 1\nretry: t\n.\n", want, 0},
		{"no channel", "direction: push\n.\n", request{}, badHeader},
		{"no direction", "channel-name: imu\n.\n", request{}, badHeader},
		{"endless", ask + strings.Repeat("retry: t\n", maxLines) + ".\n", request{}, badHeader},
	} {
		q, err := parsed(c.text)
		if r, refused := errors.AsType[*refusal](err); refused != (c.code != 0) || refused && r.code != c.code {
			t.Errorf("%s: got error %v, want status %d", c.name, err, c.code)
			continue
		}
		if q.lines = 0; c.code == 0 && q != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, q, c.want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("channel-name: imu\ntransport: udp\nremote-port: 1\nget-last: 1\ndirection: push\nperiod-ns: 99999999999999999999\n.\n")
	f.Add("a = b # c\r\n\n \n")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parsed(text)
		r, refused := errors.AsType[*refusal](err)
		switch {
		case refused && (codeNames[r.code] == "" || strings.ContainsAny(r.text, ":=#\n")):
			t.Errorf("%q: refused with %d, %q, which achd cannot read", text, r.code, r.text)
		case err == nil && (q.channel == "" || q.periodNs < 0 || strings.ContainsAny(q.channel, ":=#\r\n")):
			t.Errorf("%q: granted %+v", text, q)
		}
	})
}
