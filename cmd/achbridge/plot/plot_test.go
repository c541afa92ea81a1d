package plot

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/values"
)

var update = flag.Bool("update", false, "write the golden files anew; then look at what changed")

var zero = time.Unix(1000, 0)

// swinging returns a plot of two lines over 12 s at 100 Hz. Its newest frame is 300 ms old.
func swinging(t *testing.T) (p *Plot, now time.Time) {
	t.Helper()
	p = New("krang/imu", 10*time.Second)
	for n := range 1200 {
		now = zero.Add(time.Duration(n) * 10 * time.Millisecond)
		x := now.Sub(zero).Seconds()
		if err := p.Add(now, []values.Number{{Path: "gyro.z", Unit: "rad/s", X: math.Sin(x)}, {Path: "acc[0]", Unit: "rad/s", X: 0.5 * math.Cos(2*x)}}); err != nil {
			t.Fatal(err)
		}
	}
	return p, now.Add(300 * time.Millisecond)
}

func TestPlotGoldenPages(t *testing.T) {
	for name, s := range map[string]Screen{
		"80": {80, 24, false, true}, "140": {140, 40, false, true}, "80_color": {80, 24, true, true}, "80_ascii": {80, 24, false, false},
	} {
		p, now := swinging(t)
		p.Unfit(errors.New("3 bytes do not fit imu, which has 24"))
		got := p.Page(now, s) + "\n"
		for line := range strings.Lines(got) {
			if ansi.StringWidth(line) > s.Width {
				t.Errorf("%s: want at most %d columns, got %s", name, s.Width, line)
			}
		}
		if n := strings.Count(got, "\n"); n > s.Height {
			t.Errorf("%s: got %d lines, want at most %d", name, n, s.Height)
		}
		file := filepath.Join("testdata", "plot_"+name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal([]byte(got), want) {
			t.Errorf("%s: got\n%s\nwant\n%s\n(go test -update rewrites it)", name, got, want)
		}
	}
}

func TestPlotWithoutColorHasNoEscapeSequences(t *testing.T) {
	p, now := swinging(t)
	if page := p.Page(now, Screen{80, 24, false, true}); strings.Contains(page, "\x1b") {
		t.Errorf("got %q", page)
	}
}

func TestExtremeNumbersArePlotted(t *testing.T) {
	for _, xs := range [][]float64{
		{0, 0}, {1e300, -1e300}, {math.MaxFloat64, -math.MaxFloat64}, {1.7e18, 1.7e18 + 512}, {5e-324, 0}, {math.NaN(), math.Inf(1)}, {math.NaN(), 3}, {7}, {-1e-9, 1e-9},
	} {
		p := New("x", 2*time.Second)
		for n, x := range xs {
			if err := p.Add(zero.Add(time.Duration(n)*time.Second), []values.Number{{Path: "x", X: x}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []Screen{{80, 24, false, true}, {1, 1, true, true}, {20, 5, false, false}, {300, 100, true, true}} {
			for _, later := range []time.Duration{0, time.Second, time.Hour} {
				if page := p.Page(zero.Add(later), s); page == "" {
					t.Errorf("%v on %+v: got an empty page", xs, s)
				}
			}
		}
	}
	if page := New("x", time.Second).Page(zero, Screen{80, 24, false, true}); !strings.Contains(page, "no frame yet") {
		t.Errorf("got %q", page)
	}
}

func TestPlotLineEndsAtNewestFrame(t *testing.T) {
	p := New("x", 10*time.Second)
	for n := range 5 {
		if err := p.Add(zero.Add(time.Duration(n)*time.Second), []values.Number{{Path: "x", X: float64(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	got := fmt.Sprint(p.columns(0, 10, zero.Add(6*time.Second)))
	if want := "[NaN NaN NaN 0 1 2 3 4 NaN NaN]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPlotDiscardsFramesBeforeWindow(t *testing.T) {
	p := New("x", time.Second)
	for n := range 100_000 {
		if err := p.Add(zero.Add(time.Duration(n)*100*time.Microsecond), []values.Number{{Path: "x", X: float64(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.slots) > slots+2 || len(p.slots) < slots/2 {
		t.Errorf("got %d slots, want only those of the window", len(p.slots))
	}
	if low, high, _ := p.span(0, p.newest); high != 99_999 || low < 89_000 || low > 90_020 {
		t.Errorf("got an axis from %v to %v, want only values of the window", low, high)
	}
}

func TestPlotRefusesTooManyLines(t *testing.T) {
	if err := New("x", time.Second).Add(zero, make([]values.Number, 9)); ui.ExitCode(err) != ui.ExitUsage {
		t.Errorf("got %v, want an error about the number of lines", err)
	}
}

// The tail of a frame may be empty while that of a later frame has elements.
func TestPlotShowsValueThatAppearsLater(t *testing.T) {
	p, s := New("x", time.Second), Screen{80, 24, false, true}
	for n := range 3 {
		if err := p.Add(zero.Add(time.Duration(n)*time.Millisecond), nil); err != nil {
			t.Fatal(err)
		}
	}
	if page := p.Page(zero.Add(3*time.Millisecond), s); !strings.Contains(page, "no number yet") {
		t.Errorf("got %s, want a text that there is no number", page)
	}
	if err := p.Add(zero.Add(3*time.Millisecond), []values.Number{{Path: "path[0]", X: 7}}); err != nil {
		t.Fatal(err)
	}
	if page := p.Page(zero.Add(4*time.Millisecond), s); !strings.Contains(page, "1000.0 Hz") || !strings.Contains(page, "from 7 to 7") {
		t.Errorf("got %s, want the rate of all frames and the number", page)
	}
}

func TestAxisTimesHaveFewDigits(t *testing.T) {
	for _, c := range []struct {
		seconds    float64
		most, want int
	}{{6, 8, 7}, {6, 5, 5}, {10, 5, 5}, {10, 8, 6}, {60, 9, 9}, {60, 8, 7}, {11, 8, 3}, {3600, 9, 9}, {1, 5, 5}, {13, 2, 2}, {7.3, 9, 2}, {10, 1, 2}} {
		if got := ticks(c.seconds, c.most); got != c.want {
			t.Errorf("%v s, at most %d: got %d, want %d", c.seconds, c.most, got, c.want)
		}
	}
}

func TestPlotRateCoversOnlyTheWindow(t *testing.T) {
	p, at := New("x", 10*time.Second), time.Unix(1000, 0)
	for _, pause := range []time.Duration{time.Minute, 0} {
		for range 1000 {
			at = at.Add(10 * time.Millisecond)
			if err := p.Add(at, []values.Number{{Path: "x", X: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(pause)
	}
	if got := p.rate(); got < 99 || got > 101 {
		t.Errorf("got %v frames a second, want 100", got)
	}
}
