package ui

import "testing"

func TestBitRates(t *testing.T) {
	for text, want := range map[string]BitRate{"180Mbit": 180e6, "20mbit": 20e6, "1.5Gbit/s": 1.5e9, "64kbit": 64e3, "9600bit": 9600} {
		var r BitRate
		if err := r.Set(text); err != nil || r != want {
			t.Errorf("%s: got %v, %v, want %v", text, float64(r), err, float64(want))
		}
	}
	for _, text := range []string{"", "20", "20MB", "Mbit", "-1Mbit", "0bit", "NaNMbit", "1e300Gbit", "20Mibit"} {
		var r BitRate
		if err := r.Set(text); err == nil {
			t.Errorf("%q: got %v, want it refused", text, float64(r))
		}
	}
}
