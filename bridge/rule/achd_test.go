package rule

import (
	"strings"
	"testing"
)

func TestParseAchd(t *testing.T) {
	for text, want := range map[string]Achd{
		"achd://robot":               {"robot", "8076", false},
		"achd+udp://robot":           {"robot", "8076", true},
		"achd://robot:80":            {"robot", "80", false},
		"achd+udp://10.0.0.7:65535":  {"10.0.0.7", "65535", true},
		"achd://fd00::7":             {"fd00::7", "8076", false},
		"achd://::ffff:192.168.1.20": {"::ffff:192.168.1.20", "8076", false},
	} {
		if got, err := ParseAchd(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"achd://":               "want achd://HOST or achd+udp://HOST",
		"achd://:8076":          "want achd://HOST",
		"achd://robot:":         "with :PORT behind it",
		"achd://robot:0":        "with :PORT behind it",
		"achd://robot:70000":    "with :PORT behind it",
		"achd://robot:123456":   "with :PORT behind it",
		"achd://rob*":           "want achd://HOST",
		"achd://rob ot":         "want achd://HOST",
		"achd://[fd00::7]:8076": "write an IPv6 address without brackets",
		"achd+udp://fd00::7":    "UDP over IPv4 only",
	} {
		if got, err := ParseAchd(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestAchdMirrorName(t *testing.T) {
	for text, want := range map[string]string{
		"achd://robot/imu":                "robot.imu",
		"achd+udp://robot:8077/imu":       "robot.imu",
		"achd://10.0.0.7/imu,as={host}_i": "10.0.0.7_i",
		"achd://fd00::7/imu":              "fd00--7.imu",
		"achd://robot/imu,as=imu":         "imu",
	} {
		m, err := ParseMirror(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := m.Name(m.Host, m.Channel); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Only a rule that names achd's protocol uses it.
func TestPatternsExcludeAchdHosts(t *testing.T) {
	for _, host := range []string{"*", "*robot", "achd*", "achd:*", "[a-z]*"} {
		if m := (Mirror{Host: host, Channel: "*"}); m.Covers("achd://robot", "imu") {
			t.Errorf("%s covers achd://robot", host)
		}
	}
	if _, no := (Mirrors{{Host: "*", Channel: "imu", Deny: true}}).Denial("achd://robot", "imu"); !no {
		t.Errorf("deny rule for *: a mirror of achd://robot is allowed, want it denied")
	}
	if _, no := (Pushes{{Host: "*", Channel: "imu", Deny: true}}).Denial("imu", "achd://robot"); !no {
		t.Errorf("deny rule for *: a push to achd://robot is allowed, want it denied")
	}
	if m := (Mirror{Host: "achd://robot", Channel: "imu"}); m.Covers("robot", "imu") || !m.Covers("achd://robot", "imu") {
		t.Errorf("achd://robot is not achd://robot alone")
	}
}

func TestOptionsWithoutAchdSupportAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"achd://robot/*":                         "achd does not tell which channels it has",
		"achd://rob*/imu":                        "want achd://HOST",
		"achd://robot/imu,class=command":         "it carries no commands",
		"achd://robot/imu,priority=7":            "priority 7: achd://robot has achd, which has no such option",
		"achd://robot/imu,budget=20ms":           "budget 20ms: ",
		"achd://robot/imu,late=drop":             "late drop: ",
		"achd://robot/imu,transport=quic":        "transport quic: only links have it",
		"achd://robot/imu,mode=every,max_rate=5": "cannot be combined with max_rate",
	} {
		if m, err := ParseMirror(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", text, m, err, want)
		}
	}
	for _, text := range []string{"mode=every", "max_rate=50", "deadline=1s", "meta=true", "budget=100ms", "file_mode=0660"} {
		if _, err := ParseMirror("achd://robot/imu,"+text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := (Mirror{Host: "achd://robot", Channel: "*", Deny: true}).Check(); err != nil {
		t.Errorf("a rule that denies: %v", err)
	}
}

func TestParsePushToAchdHost(t *testing.T) {
	for target, want := range map[string]Push{
		"achd://robot":                {Channel: "goal", Host: "achd://robot"},
		"achd+udp://robot:8076/plan":  {Channel: "goal", Host: "achd+udp://robot", As: "plan"},
		"achd://192.168.1.20:80/plan": {Channel: "goal", Host: "achd://192.168.1.20:80", As: "plan"},
	} {
		if got, err := ParsePush("goal", target); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", target, got, err, want)
		}
	}
	for want, p := range map[string]Push{
		"want the name of one host":   {Channel: "goal", Host: "achd://rob*"},
		"it carries no commands":      {Channel: "goal", Host: "achd://robot", QoS: QoS{Class: Command}},
		"transport quic: only links":  {Channel: "goal", Host: "achd://robot", Over: "quic"},
		"deadline, on_stale and meta": {Channel: "goal", Host: "achd://robot", QoS: QoS{Deadline: 1e9}},
		"bad channel name":            {Channel: "goal", Host: "achd://robot", As: "a/b"},
	} {
		if err := p.CheckOne(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", p, err, want)
		}
	}
}
