package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge/unit"
)

// Millis formats milliseconds with three significant figures.
func Millis(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f ms", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f ms", v)
	case v < 9999.5:
		return fmt.Sprintf("%.0f ms", v)
	}
	return Seconds(math.Round(v) / 1000)
}

// Seconds formats a duration in whole seconds; it drops fractions.
func Seconds(v float64) string {
	return unit.Time(time.Duration(v) * time.Second)
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BitRate is a rate in bits a second on the command line: 20Mbit. Units are decimal and case-insensitive.
type BitRate float64

var rateUnits = []struct {
	name string
	bits float64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

func (r BitRate) String() string {
	for _, u := range rateUnits {
		if float64(r) >= 0.99995*u.bits { // rounding displays such a rate in this unit
			return strconv.FormatFloat(float64(r)/u.bits, 'g', 4, 64) + " " + u.name + "/s"
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

// BytesPerSecond formats a rate of bytes in bits a second, with three significant figures, since links are rated in
// bits.
func BytesPerSecond(v float64) string {
	v *= 8
	for _, name := range []string{"bit/s", "kbit/s", "Mbit/s"} {
		if v < 999.5 {
			return fmt.Sprintf("%.3g %s", v, name)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g Gbit/s", v)
}

// Mbit formats the rate of a link, given in Mbit/s.
func Mbit(v float64) string { return BytesPerSecond(v * 1e6 / 8) }

// Percent formats a share in whole percent, "-" if it is unknown.
func Percent(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 99.995:
		return ">9999 %"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// Hertz formats the rate of a channel's frames with three significant figures.
func Hertz(v float64) string { return figures(v, " Hz") }

// PerSecond formats a number of events a second, such as drops, with three significant figures.
func PerSecond(v float64) string { return figures(v, "/s") }

func figures(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == 0:
		return "0" + unit
	case v < 9.995:
		return fmt.Sprintf("%.2f", v) + unit
	case v < 99.95:
		return fmt.Sprintf("%.1f", v) + unit
	}
	return fmt.Sprintf("%.0f", v) + unit
}

// Day formats the date of a time, as in 2026-01-31.
func Day(t time.Time) string { return t.Format(time.DateOnly) }
