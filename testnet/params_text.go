package testnet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseParams parses the text form: "delay=10ms,rate=1mbit,queue=64KiB,loss=1%"
// with the keys in keysText and the words cut and up. Only trace's FILE and air's
// NAME are case-sensitive. Rates are decimal bits per second, sizes binary bytes.
// ParseParams reads the trace's file. The error has all problems.
func ParseParams(text string) (Params, error) {
	return Params{}.With(text)
}

// With returns p with the parameters in text. Other parameters do not change. "up"
// only ends a cut. "none" or 0 removes a limit. After an error With returns p
// unchanged.
func (p Params) With(text string) (Params, error) {
	next, seen, before := p, map[string]bool{}, ""
	var errs []error
	for item := range strings.SplitSeq(text, ",") {
		key, value, pair := strings.Cut(item, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if key != "trace" && key != "air" {
			value = strings.ToLower(value)
		}
		name := key
		if key == "up" {
			name = "cut"
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("%s: given twice", key))
			continue
		}
		seen[name] = true
		err := next.set(key, value, pair)
		if err != nil && before == "trace" && !pair {
			err = fmt.Errorf("%w; if it belongs to the name of trace's file: that cannot have a comma, so rename the file", err)
		}
		if err != nil {
			errs = append(errs, err)
		}
		before = key
	}
	if len(errs) == 0 {
		errs = append(errs, next.Check())
	}
	if err := errors.Join(errs...); err != nil {
		return p, err
	}
	return next, nil
}

const keysText = "delay, jitter, rate, stall, fade, trace, from, wifi, air, queue, mtu, loss, burst, dup, reorder, cut, up"

func (p *Params) set(key, value string, pair bool) error {
	switch key {
	case "":
		return fmt.Errorf("link: an empty part; right is KEY=VALUE,… with the keys %s", keysText)
	case "cut", "up":
		if pair {
			return fmt.Errorf("%s: takes no value", key)
		}
		p.Cut = key == "cut"
		return nil
	}
	set, ok := map[string]func(string) error{
		"delay":   func(s string) error { return into(&p.Delay, s, parseTime) },
		"jitter":  func(s string) error { return into(&p.Jitter, s, parseTime) },
		"rate":    func(s string) error { return into(&p.Rate, s, orNone(parseRate)) },
		"stall":   func(s string) error { return into(&p.Stall, s, parseStall) },
		"fade":    func(s string) error { return into(&p.Fade, s, parseFade) },
		"trace":   p.setTrace,
		"from":    func(s string) error { return into(&p.From, s, parseTime) },
		"wifi":    func(s string) error { return into(&p.Wifi, s, parseName) },
		"air":     func(s string) error { return into(&p.Air, s, parseName) },
		"queue":   func(s string) error { return into(&p.Queue, s, orNone(parseSize)) },
		"mtu":     func(s string) error { return into(&p.MTU, s, parseMTU) },
		"loss":    func(s string) error { return into(&p.Loss, s, parseShare) },
		"burst":   func(s string) error { return into(&p.Burst, s, orNone(parseBurst)) },
		"dup":     func(s string) error { return into(&p.Duplicate, s, parseShare) },
		"reorder": func(s string) error { return into(&p.Reorder, s, parseShare) },
	}[key]
	switch {
	case !ok:
		return fmt.Errorf("%s: no such key; right are %s", key, keysText)
	case !pair || value == "":
		return fmt.Errorf("%s: has no value; right is %s", key, examples[key])
	}
	if err := set(value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// setTrace reads the trace in file. "none" removes trace and from.
func (p *Params) setTrace(file string) (err error) {
	if file == "none" {
		p.Trace, p.From = nil, 0
		return nil
	}
	p.Trace, err = ReadTrace(file)
	return err
}

func parseName(s string) (string, error) {
	if s == "none" {
		return "", nil
	}
	return s, nil
}

var examples = map[string]string{
	"stall": "stall=5ms/25ms", "fade": "fade=20s/10s/12kbit", "trace": "trace=FILE", "from": "from=10s", "wifi": "wifi=good", "air": "air=hall",
	"delay": "delay=10ms", "jitter": "jitter=2ms", "rate": "rate=1mbit", "queue": "queue=64KiB", "mtu": "mtu=1280",
	"loss": "loss=1%", "burst": "burst=3", "dup": "dup=1%", "reorder": "reorder=1%",
}

func into[T any](dst *T, s string, parse func(string) (T, error)) error {
	v, err := parse(s)
	if err != nil {
		return err
	}
	*dst = v
	return nil
}

func orNone[T int64 | float64](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		if s == "none" || s == "0" {
			return 0, nil
		}
		return parse(s)
	}
}

func parseTime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > time.Hour {
		return 0, fmt.Errorf("%q is not a time; right is 0 to 1h with a unit, such as 500us, 10ms, 2s", s)
	}
	return d, nil
}

func parseMTU(s string) (int, error) {
	n, err := orNone(parseSize)(s)
	return int(n), err
}

func parseBurst(s string) (float64, error) {
	v, err := parseNumber(s)
	if err != nil || v < 1 {
		return 0, fmt.Errorf("%q is not a mean number of packets; right is 1 or more, such as 3, or none", s)
	}
	return v, nil
}

// String returns the text form of p, which ParseParams parses. A perfect link is
// "up".
func (p Params) String() string {
	var parts []string
	add := func(set bool, key, value string) {
		if set {
			parts = append(parts, key+"="+value)
		}
	}
	add(p.Delay != 0, "delay", p.Delay.String())
	add(p.Jitter != 0, "jitter", p.Jitter.String())
	add(p.Rate != 0, "rate", formatRate(p.Rate))
	add(p.Stall != Stall{}, "stall", p.Stall.String())
	add(p.Fade != Fade{}, "fade", p.Fade.String())
	if p.Trace != nil {
		parts = append(parts, "trace="+p.Trace.name)
	}
	add(p.From != 0, "from", p.From.String())
	add(p.Wifi != "", "wifi", p.Wifi)
	add(p.Air != "", "air", p.Air)
	add(p.Queue != 0, "queue", formatSize(p.Queue))
	add(p.MTU != 0, "mtu", strconv.Itoa(p.MTU))
	add(p.Loss != 0, "loss", formatShare(p.Loss))
	add(p.Burst != 0, "burst", strconv.FormatFloat(p.Burst, 'f', -1, 64))
	add(p.Duplicate != 0, "dup", formatShare(p.Duplicate))
	add(p.Reorder != 0, "reorder", formatShare(p.Reorder))
	if p.Cut {
		parts = append(parts, "cut")
	}
	if len(parts) == 0 {
		return "up"
	}
	return strings.Join(parts, ",")
}
