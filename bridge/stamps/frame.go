package stamps

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/layout"
)

// Shifter shifts the stamps in the frames of one channel. It does not change, so that all goroutines may use it.
type Shifter struct {
	root *message // the stamps in a protobuf message; nil for a struct

	// Stamps in a struct.
	minSize               int
	size                  layout.Fit // used only if isSized
	isSized               bool
	time, duration, until fixedValue
}

// By is how far the stamps of a frame are shifted. A stamp that determines when the frame expires is shifted by
// Expiry, other stamps by Time.
type By struct{ Time, Expiry time.Duration }

// Expiry is when a frame expires, by the clock to which its stamps were shifted.
type Expiry struct {
	IsKnown  bool          // false means that the frame does not expire
	At       time.Duration // last time at which the frame is valid
	Duration time.Duration // validity from the frame's time; 0 if the frame has no time or no expiry
	Made     time.Duration // the frame's time; 0 if it has none
}

// Passed reports whether the frame has expired at now.
func (e Expiry) Passed(now time.Duration) bool { return e.IsKnown && now > e.At }

// Errors of frames whose stamps cannot be shifted.
var (
	ErrSize   = errors.New("stamps: the frame's size is wrong")
	ErrValue  = errors.New("stamps: a stamp is no time")
	ErrFormat = errors.New("stamps: the frame is no protobuf message of this kind")
	ErrNoTime = errors.New("stamps: the frame has no time")
)

// Shift appends a frame with shifted stamps to dst. Durations do not change, and an unset stamp (0) stays 0. If the
// frame does not parse, Shift returns an error and dst.
func (s *Shifter) Shift(dst, frame []byte, by By) ([]byte, Expiry, error) {
	if s.root != nil {
		return s.root.shift(dst, frame, by)
	}
	if len(frame) < s.minSize || s.isSized && s.size.Check(len(frame), frame) != nil {
		return dst, Expiry{}, ErrSize
	}
	var v values
	if !s.time.read(frame, &v[timeRole]) || !s.duration.read(frame, &v[durationRole]) || !s.until.read(frame, &v[untilRole]) {
		return dst, Expiry{}, ErrValue
	}
	expiry, ok := v.shift(by)
	if !ok {
		return dst, Expiry{}, ErrValue
	}
	start := len(dst)
	dst = append(dst, frame...)
	if !s.time.write(dst[start:], v[timeRole]) || !s.until.write(dst[start:], v[untilRole]) {
		return dst[:start], Expiry{}, ErrValue
	}
	return dst, expiry, nil
}

// Stamp appends a frame whose time is now to dst. The frame expires as long after its time as before. If the frame
// does not parse, or if it has no time that can be set, Stamp returns an error and dst.
func (s *Shifter) Stamp(dst, frame []byte, now time.Duration) ([]byte, error) {
	b, e, err := s.Shift(dst, frame, By{})
	switch {
	case err != nil:
		return dst, err
	case e.Made != 0:
		b, _, err = s.Shift(dst, frame, By{now - e.Made, now - e.Made})
		return b, err
	case s.time.isSet && s.time.write(b[len(dst):], stamp{int64(now), true}):
		return b, nil
	}
	return dst, ErrNoTime
}

// role is the meaning of a value in a frame.
type role uint8

const (
	timeRole role = iota
	durationRole
	untilRole
	roles
)

// stamp is a value of a frame.
type stamp struct {
	ns        int64
	isPresent bool
}

// isSet reports whether a time is more than a place that the sender left empty.
func (s stamp) isSet() bool { return s.isPresent && s.ns != 0 }

// shift adds by to a time that is set. The result is not 0, which would mean unset. ok is false if the result is too
// large for a time.
func (s *stamp) shift(by time.Duration) (ok bool) {
	if !s.isSet() {
		return true
	}
	sum := saturated(s.ns, int64(by))
	if sum == math.MaxInt64 || sum == math.MinInt64 {
		return false
	}
	s.ns = sum
	if sum == 0 {
		s.ns = 1
	}
	return true
}

// values are the values of a frame by role.
type values [roles]stamp

// shift shifts the times, and returns when the frame expires. ok is false if a result is too large for a time.
func (v *values) shift(by By) (e Expiry, ok bool) {
	made, duration, until := &v[timeRole], v[durationRole], &v[untilRole]
	timeBy := by.Time
	if duration.isPresent {
		timeBy = by.Expiry
	}
	if made.isSet() && until.isSet() {
		duration.ns = saturated(until.ns, -made.ns)
	}
	if !made.shift(timeBy) || !until.shift(by.Expiry) {
		return e, false
	}
	e.Duration, e.Made = time.Duration(duration.ns), time.Duration(made.ns)
	switch {
	case duration.isPresent:
		e.IsKnown, e.At = true, time.Duration(saturated(made.ns, duration.ns))
	case until.isSet():
		e.IsKnown, e.At = true, time.Duration(until.ns)
	}
	return e, true
}

// saturated returns a + b, or the nearest value that an int64 can hold.
func saturated(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// fixedValue is a value of a struct: a pair of seconds and nanoseconds, nanoseconds, or seconds in a double.
type fixedValue struct {
	first, second number
	isSet, isPair bool
}

func wholeAt(offset int, t layout.Type) fixedValue {
	return fixedValue{first: number{offset, t}, isSet: true}
}

func pairAt(first int, firstType layout.Type, second int, secondType layout.Type) fixedValue {
	return fixedValue{number{first, firstType}, number{second, secondType}, true, true}
}

// read reads the value from a frame. It returns false if the bytes are no time.
func (f *fixedValue) read(frame []byte, s *stamp) (ok bool) {
	if !f.isSet {
		return true
	}
	s.isPresent = true
	if f.first.kind == layout.Double {
		s.ns, ok = nanoseconds(math.Float64frombits(binary.LittleEndian.Uint64(f.first.in(frame))))
		return ok
	}
	if s.ns, ok = f.first.read(frame); !ok || !f.isPair {
		return ok
	}
	nsec, ok := f.second.read(frame)
	if !ok {
		return false
	}
	s.ns, ok = joined(s.ns, nsec)
	return ok
}

// nanoseconds converts seconds. It returns false if the result is too large for a time.
func nanoseconds(seconds float64) (ns int64, ok bool) {
	if !(math.Abs(seconds) <= maxSeconds) { // false for NaN
		return 0, false
	}
	return int64(math.Round(seconds * 1e9)), true
}

// joined returns the time of a pair. It returns false if the pair is no time.
func joined(sec, nsec int64) (ns int64, ok bool) {
	if sec > maxSeconds || sec < -maxSeconds || nsec < 0 || nsec >= second {
		return 0, false
	}
	return sec*second + nsec, true
}

// split returns the pair of a time, with 0 <= nsec < 1e9.
func split(ns int64) (sec, nsec int64) {
	sec, nsec = ns/second, ns%second
	if nsec < 0 {
		sec, nsec = sec-1, nsec+second
	}
	return sec, nsec
}

const (
	second     = 1_000_000_000            // ns
	maxSeconds = math.MaxInt64/second - 1 // 292 years; no monotonic clock runs that long
)

// write writes a shifted time into a frame. It returns false if the field cannot hold the time.
func (f *fixedValue) write(frame []byte, s stamp) (ok bool) {
	switch {
	case !f.isSet || !s.isSet():
		return true
	case f.first.kind == layout.Double:
		binary.LittleEndian.PutUint64(f.first.in(frame), math.Float64bits(float64(s.ns)/1e9))
		return true
	case !f.isPair:
		return f.first.write(frame, s.ns)
	}
	sec, nsec := split(s.ns)
	return f.first.write(frame, sec) && f.second.write(frame, nsec)
}

// number is a number in a struct.
type number struct {
	offset int // from the beginning of the frame; if negative, from its end
	kind   layout.Type
}

// in returns the bytes of the number.
func (n number) in(frame []byte) []byte {
	if n.offset < 0 {
		return frame[len(frame)+n.offset:]
	}
	return frame[n.offset:]
}

// read returns an integer. It returns false if an int64 cannot hold the integer.
func (n number) read(frame []byte) (v int64, ok bool) {
	b := n.in(frame)
	switch n.kind {
	case layout.Int32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case layout.Uint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	}
	v = int64(binary.LittleEndian.Uint64(b))
	return v, v >= 0 || n.kind == layout.Int64
}

// write writes an integer. It returns false if the type cannot hold v.
func (n number) write(frame []byte, v int64) (ok bool) {
	b := n.in(frame)
	switch n.kind {
	case layout.Int32:
		ok = v == int64(int32(v))
		binary.LittleEndian.PutUint32(b, uint32(v))
	case layout.Uint32:
		ok = v == int64(uint32(v))
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		ok = v >= 0 || n.kind == layout.Int64
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
	return ok
}

// fixed finds the fields of the rule in a layout.
func (f *ruleFields) fixed(l *layout.Layout) (*Shifter, error) {
	if l.Variants != nil {
		return f.fixedInVariants(l)
	}
	s := &Shifter{size: l.Fit(), isSized: true}
	for _, v := range []struct {
		key string
		to  *fixedValue
	}{{keyTime, &s.time}, {keyDuration, &s.duration}, {keyUntil, &s.until}} {
		names := f.byKey(v.key)
		if !names.isSet() {
			continue
		}
		var err error
		if *v.to, err = names.find(l); err != nil {
			return nil, fmt.Errorf("%s: %w", v.key, err)
		}
		s.minSize = max(s.minSize, v.to.first.end(), v.to.second.end())
	}
	return s, nil
}

// fixedInVariants returns the Shifter for a layout with variants. All variants must have the fields of the rule at the same
// offsets.
func (f *ruleFields) fixedInVariants(l *layout.Layout) (*Shifter, error) {
	var first *Shifter
	for i := range l.Variants {
		s, err := f.fixed(&l.Variants[i].Layout)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = s
		case s.time != first.time || s.duration != first.duration || s.until != first.until:
			return nil, fmt.Errorf("the fields have other offsets in %s than in %s", l.Variants[i].Layout.Name, l.Variants[0].Layout.Name)
		}
	}
	first.size = l.Fit()
	return first, nil
}

func (n number) end() int { return n.offset + n.kind.OwnSize() }

// find returns the value with these names in a layout.
func (v value) find(l *layout.Layout) (f fixedValue, err error) {
	if f.first, err = findNumber(l, v.first); err != nil {
		return f, err
	}
	f.isSet = true
	if v.second == "" {
		if f.first.kind.OwnSize() != 8 {
			return f, fmt.Errorf("%s is %s: want 64 bits of nanoseconds, a double, or a second field with nanoseconds", v.first, f.first.kind)
		}
		return f, nil
	}
	if f.second, err = findNumber(l, v.second); err != nil {
		return f, err
	}
	f.isPair = true
	if f.first.kind == layout.Double || f.second.kind == layout.Double {
		return f, fmt.Errorf("%s: a double has the nanoseconds already: want two integers, or only the double", v)
	}
	return f, nil
}

// stampTypes are the types that a number of a stamp can have.
var stampTypes = []layout.Type{layout.Int32, layout.Uint32, layout.Int64, layout.Uint64, layout.Double}

// findNumber returns the field with a name such as header.sec.
func findNumber(l *layout.Layout, name string) (n number, err error) {
	fields := l.Fields
	levels := strings.Split(name, ".")
	for i, level := range levels {
		at := slices.IndexFunc(fields, func(f layout.Field) bool { return f.Name == level })
		if at < 0 {
			return n, fmt.Errorf("%s: %s has no such field", name, l.Name)
		}
		f := &fields[at]
		n.offset += f.Offset
		n.kind, fields = f.Type, f.Fields
		isNumber := slices.Contains(stampTypes, f.Type)
		if isLast := i == len(levels)-1; isLast && !isNumber || !isLast && f.Type != layout.Struct ||
			len(f.Count) > 0 || f.Bits > 0 || f.Scale != 0 || f.Name == l.Tail && i == 0 {
			return n, fmt.Errorf("%s: want an integer of 32 or 64 bits or a double, without bits, array and scale", name)
		}
	}
	return n, nil
}
