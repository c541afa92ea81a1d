package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Millis prints milliseconds with three figures.
func Millis(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return Seconds(v / 1000)
}

// Seconds prints a duration to the second.
func Seconds(v float64) string {
	return (time.Duration(v) * time.Second).String()
}

// Milliseconds is a duration as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BitRate is a rate in bits a second on the command line: 20Mbit. Units are
// decimal and case does not matter.
type BitRate float64

var rateUnits = []struct {
	name string
	bits float64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

func (r BitRate) String() string {
	for _, unit := range rateUnits {
		if float64(r) >= unit.bits {
			return strconv.FormatFloat(float64(r)/unit.bits, 'g', 4, 64) + " " + unit.name + "/s"
		}
	}
	return "0"
}

func (r *BitRate) Type() string { return "RATE" }

func (r *BitRate) Set(text string) error {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
	name := strings.TrimSuffix(strings.ToLower(text[len(number):]), "/s")
	for _, unit := range rateUnits {
		if f, err := strconv.ParseFloat(number, 64); err == nil && strings.EqualFold(name, unit.name) && f*unit.bits >= 1 && f*unit.bits <= 1e15 {
			*r = BitRate(f * unit.bits)
			return nil
		}
	}
	return fmt.Errorf("%q: want a rate, as in 20Mbit (bit, kbit, Mbit or Gbit a second)", text)
}

// BytesPerSecond prints a rate with three figures.
func BytesPerSecond(v float64) string {
	for _, unit := range []string{"B/s", "kB/s", "MB/s"} {
		if v < 999.5 {
			return fmt.Sprintf("%.3g %s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g GB/s", v)
}

// Percent prints a share in whole percent, "-" when it is not known.
func Percent(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 99.995:
		return ">9999%"
	}
	return fmt.Sprintf("%.0f%%", 100*v)
}

// PerSecond prints a rate with three figures.
func PerSecond(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == 0:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Day is the day of a time, as in 2026-01-31.
func Day(t time.Time) string { return t.Format(time.DateOnly) }
