package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes on the command line: "512", "64KiB", "1.5MiB". Units are binary and case-insensitive.
// Decimal units (kB, MB) are refused, since many people confuse them with binary ones.
type Size int

var sizeUnits = []struct {
	name  string
	bytes int
}{

	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

func (s *Size) String() string { return Bytes(int(*s)) }

func (s *Size) Type() string { return "BYTES" }

func (s *Size) Set(text string) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	*s = Size(n)
	return nil
}

func parseSize(text string) (int, error) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	name := text[len(number):]
	scale := 0
	for _, unit := range sizeUnits {
		if strings.EqualFold(name, unit.name) || name == "" {
			scale = unit.bytes
		}
	}
	if scale == 0 {
		return 0, fmt.Errorf("size %q: unit %q is none of B, KiB, MiB, GiB", text, name)
	}
	if n, err := strconv.Atoi(number); err == nil {
		if n < 0 || n > math.MaxInt/scale {
			return 0, fmt.Errorf("size %q: out of range", text)
		}
		return n * scale, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	bytes := f * float64(scale)
	if err != nil || f < 0 || bytes != math.Trunc(bytes) || bytes > 1<<52 {
		return 0, fmt.Errorf("size %q: not a whole number of bytes", text)
	}
	return int(bytes), nil
}

// Bytes formats a size as on the command line: exact, with the largest binary unit that divides it.
func Bytes(n int) string {
	for _, unit := range sizeUnits {
		if unit.bytes > 1 && n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// AboutBytes formats a size with three significant figures.
func AboutBytes[N int | int64](n N) string {
	for _, unit := range sizeUnits {
		if v := float64(n) / float64(unit.bytes); unit.bytes > 1 && v >= 1-0.5/1024 { // smaller values would be displayed as 1023 of the next smaller unit
			figures := 3
			if v >= 999.5 {
				figures = 4
			}
			return fmt.Sprintf("%.*g %s", figures, v, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// SizeRange formats one size, or the smallest and the largest.
func SizeRange(least, most int) string {
	if least == most {
		return Bytes(least)
	}
	return Bytes(least) + " to " + Bytes(most)
}
