package testnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is a suffix and its factor.
type unit struct {
	suffix string
	factor float64
}

// Units in the order in which they are tried, so that "bit" does not match "mbit".
// Rates are decimal and sizes binary, as in the man pages of tc and IEC 80000-13.
var (
	rateUnits = []unit{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}
	sizeUnits = []unit{{"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10}, {"b", 1}, {"", 1}}
)

const (
	maxRate = 1e12 // bits per second
	maxSize = 1 << 40
)

// parseRate parses a rate such as "1.5mbit", in bits per second.
func parseRate(s string) (int64, error) {
	v, ok := parseUnit(strings.TrimSuffix(strings.ToLower(s), "/s"), rateUnits)
	if !ok || v < 1 || v > maxRate {
		return 0, fmt.Errorf("%q is not a rate; right is 1bit to 1000gbit (bit, kbit, mbit, gbit per second), or none", s)
	}
	return int64(math.Round(v)), nil
}

// parseSize parses a size such as "64KiB" or "1500", in bytes.
func parseSize(s string) (int64, error) {
	v, ok := parseUnit(strings.ToLower(s), sizeUnits)
	if !ok || v < 1 || v > maxSize || v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a size; right is a whole number of bytes (B, KiB, MiB, GiB: 64KiB is 65536), or none", s)
	}
	return int64(v), nil
}

func parseUnit(s string, units []unit) (float64, bool) {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, err := parseNumber(number)
		return v * u.factor, err == nil
	}
	return 0, false
}

// parseNumber parses a plain decimal number. Unlike strconv it refuses signs,
// exponents, hexadecimal, inf, nan and underscores.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, errNumber
	}
	return strconv.ParseFloat(s, 64)
}

var errNumber = errors.New("not a plain decimal number")

// parseShare parses a percentage: "1%" is 0.01.
func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := parseNumber(number)
	if err != nil || v > 100 || !percent && v != 0 {
		return 0, fmt.Errorf("%q is not a share; right is 0%% to 100%%", s)
	}
	return v / 100, nil
}

func formatRate(rate int64) string { return formatUnit(rate, rateUnits, 1000) }

func formatSize(size int64) string {
	s := formatUnit(size, []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}, 1)
	return s
}

// formatUnit formats v in the largest unit that needs at most log10(parts) decimals.
func formatUnit(v int64, units []unit, parts int64) string {
	for _, u := range units {
		f := int64(u.factor)
		if v >= f && v*parts/f*f == v*parts {
			return strconv.FormatFloat(float64(v)/u.factor, 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(v, 10) + units[len(units)-1].suffix
}

func formatShare(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e12)/1e10, 'f', -1, 64) + "%"
}
