package ui

import "testing"

// Each printed number is below a thousand of its unit, or below 1024 if it is in bytes.
func TestUnitIsChosenAfterRounding(t *testing.T) {
	for got, want := range map[string]string{
		BitRate(999_960).String():   "1 Mbit/s",
		BitRate(999_900).String():   "999.9 kbit/s",
		BitRate(999.96e6).String():  "1 Gbit/s",
		BytesPerSecond(999_600 / 8): "1 Mbit/s",
		Mbit(18.04):                 "18 Mbit/s",
		Mbit(999.7):                 "1 Gbit/s",
		Mbit(2345):                  "2.35 Gbit/s", // 2.35e+03 Mbit/s
		Mbit(0.0734):                "73.4 kbit/s",
		Millis(9.994):               "9.99 ms",
		Millis(9.996):               "10.0 ms",
		Millis(99.96):               "100 ms",
		Millis(9999.7):              "10 s",
		Hertz(9.996):                "10.0 Hz",
		PerSecond(99.96):            "100/s",
		AboutBytes(1023):            "1023 B",
		AboutBytes(1<<20 - 1):       "1 MiB",
		AboutBytes(1<<20 - 1024):    "1023 KiB",
		AboutBytes(1<<30 - 1):       "1 GiB",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseBitRate(t *testing.T) {
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
