package rule

import "testing"

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"krang":           {"krang", "*"},
		"krang/imu":       {"krang", "imu"},
		"krang/i*":        {"krang", "i*"},
		"*/imu":           {"*", "imu"},
		"ach://krang/imu": {"krang", "imu"},

		"achd://krang/imu":           {"achd://krang", "imu"},
		"achd://krang:8076/imu":      {"achd://krang", "imu"},
		"achd://krang:8077/imu":      {"achd://krang:8077", "imu"},
		"achd+udp://192.168.1.20/im": {"achd+udp://192.168.1.20", "im"},
		"achd://fd00::8076/imu":      {"achd://fd00::8076", "imu"},
		"achd://krang":               {"achd://krang", "*"},
	} {
		if got, err := ParseAddress(text); err != nil || got != want {
			t.Errorf("parseAddress(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/", "krang/", "/imu", "a/b/c", "[", "krang/[", "achd://", "achd:///imu", "achd://krang/a/b"} {
		if got, err := ParseAddress(text); err == nil {
			t.Errorf("parseAddress(%q) = %v, want an error", text, got)
		}
	}
}
