package rule

import "testing"

func TestAddressStandsForAllChannelsOfAHost(t *testing.T) {
	for text, want := range map[string]Address{
		"krang":           {"krang", "*"},
		"krang/imu":       {"krang", "imu"},
		"krang/i*":        {"krang", "i*"},
		"*/imu":           {"*", "imu"},
		"ach://krang/imu": {"krang", "imu"},
	} {
		if got, err := ParseAddress(text); err != nil || got != want {
			t.Errorf("parseAddress(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/", "krang/", "/imu", "a/b/c", "[", "krang/["} {
		if got, err := ParseAddress(text); err == nil {
			t.Errorf("parseAddress(%q) = %v, want an error", text, got)
		}
	}
}
