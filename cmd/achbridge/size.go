package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes on the command line: "512", "64KiB", "1.5MiB".
// Units are binary and case does not matter. Decimal ones (kB, MB) are
// refused, as half of the readers take them for the other thing.
type size int

var sizeUnits = []struct {
	name  string
	bytes int
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

func (s *size) String() string { return bytesText(int(*s)) }
func (s *size) Type() string   { return "BYTES" }

func (s *size) Set(text string) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	*s = size(n)
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
