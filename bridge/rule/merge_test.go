package rule

import (
	"strings"
	"testing"
)

func TestMergeNames(t *testing.T) {
	for _, c := range []struct{ as, name, output string }{
		{"", "all.event/robot1", "all.event"}, {"event.all", "event.all/robot1", "event.all"}, {"x.{channel}", "x.event/robot1", "x.event"},
	} {
		m := Mirror{Host: "*", Channel: "event", As: c.as, Merge: true, QoS: QoS{Mode: Every}}
		if err := m.Check(); err != nil {
			t.Errorf("as %q: %v", c.as, err)
		}
		if m.Name("robot1", "event") != c.name || m.Into("robot1", "event") != c.output || m.Output() != c.output {
			t.Errorf("as %q: got %s and %s, want %s and %s", c.as, m.Name("robot1", "event"), m.Output(), c.name, c.output)
		}
	}
	if m := (Mirror{Host: "*", Channel: "event"}); m.Output() != "" {
		t.Errorf("a mirror has the output %s, want none", m.Output())
	}
}

func TestMergeCheckRefuses(t *testing.T) {
	for want, change := range map[string]func(m *Mirror){
		"not a pattern of channels":      func(m *Mirror) { m.Channel = "event*" },
		"needs achbridge on each host":   func(m *Mirror) { m.Host, m.QoS = "achd://robot", QoS{Mode: Every} },
		"leave mode, class and meta":     func(m *Mirror) { m.QoS = QoS{Class: Command} },
		"mode every, class state":        func(m *Mirror) { m.QoS.Meta = true },
		"{host} cannot be in its name":   func(m *Mirror) { m.As = "{host}.event" },
		"no room for its name":           func(m *Mirror) { m.As = strings.Repeat("x", 59) },
		`channel "a b"`:                  func(m *Mirror) { m.As = "a b" },
		"cannot be combined":             func(m *Mirror) { m.QoS.MaxRate = 1 },
		`transport "smoke": want quic o`: func(m *Mirror) { m.Over = "smoke" },
	} {
		m := Mirror{Host: "*", Channel: "event", Merge: true, QoS: QoS{Mode: Every}}
		change(&m)
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want an error with %q", m, err, want)
		}
	}
}

func TestMergeOutputHasOneWriter(t *testing.T) {
	merge := Mirror{Host: "*", Channel: "event", Merge: true, QoS: QoS{Mode: Every}}
	for name, c := range map[string]struct {
		other  Mirror
		accept Grants
		want   string
	}{
		"mirror":                    {Mirror{Host: "x", Channel: "y", As: "all.event"}, nil, "written by the mirror of x/y too"},
		"mirror of a host all":      {Mirror{Host: "all", Channel: "event"}, nil, "written by the mirror of all/event too"},
		"another channel":           {Mirror{Host: "x", Channel: "log", As: "all.event", Merge: true}, nil, "another channel or file_mode"},
		"another file mode":         {Mirror{Host: "x", Channel: "event", Merge: true, FileMode: 0o660}, nil, "another channel or file_mode"},
		"accepted push":             {Mirror{Deny: true}, Grants{{Channels: []string{"all.event"}}}, "written by pushes that a rule accepts too"},
		"further host":              {Mirror{Host: "x", Channel: "event", Merge: true}, nil, ""},
		"mirror with another name":  {Mirror{Host: "all", Channel: "event", As: "event"}, nil, ""},
		"accepted push into others": {Mirror{Deny: true}, Grants{{Channels: []string{"event"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Mirrors{c.other, merge}.CheckMerge(1, c.accept)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	mux := Mux{Output: "all.event", Inputs: []MuxInput{{Channel: "teleop", Live: mostLive}}}
	if err := mux.CheckAmong(nil, Mirrors{merge}, nil); err == nil || !strings.Contains(err.Error(), "all.event is written by the mirror of */event too") {
		t.Errorf("a mux with the same output: got %v, want an error", err)
	}
	mux = Mux{Output: "ref", Inputs: []MuxInput{{Channel: "all.event", Live: mostLive}}}
	if err := mux.CheckAmong(nil, Mirrors{merge}, nil); err == nil || !strings.Contains(err.Error(), "without class command") {
		t.Errorf("a mux with the output as an input: got %v, want an error", err)
	}
}
