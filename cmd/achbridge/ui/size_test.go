package ui

import "testing"

func TestSizesAreBinaryAndExact(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "512": 512, "512B": 512, "64KiB": 65536, "64kib": 65536, "1.5MiB": 1572864, "2GiB": 2 << 30,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestInvalidSizesAreRefused(t *testing.T) {
	for _, text := range []string{"", "KiB", "64kB", "64K", "64 KiB", "-1", "-1KiB", "0.3B", "1e30KiB", "nan", "NaNKiB", "+infGiB", "9223372036854775807KiB", "0x10"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add("64KiB")
	f.Add("1.5MiB")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSize(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("parseSize(%q) = %d, want at least 0", text, n)
		}
		if again, err := parseSize(Bytes(n)); err != nil || again != n {
			t.Fatalf("parseSize(bytesText(%d)) = %d, %v", n, again, err)
		}
	})
}
