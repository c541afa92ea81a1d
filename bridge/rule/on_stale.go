package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OnStale is what becomes of a command channel whose writer is lost: no frame came
// within the deadline. The zero value keeps the last command. Values can be compared.
type OnStale struct {
	File  string // where the safe frame was read; empty: keep
	Frame string // the safe frame's bytes
}

const (
	keepStale = "keep"
	putStale  = "put:"
)

// maxSafeFrame is how large a safe frame may be.
const maxSafeFrame = 32 << 10

// ReadFile returns the first bytes of a file, at most so many. It is handed in, since
// this package reads no file itself.
type ReadFile func(file string, most int64) ([]byte, error)

// parseOnStale reads keep, or put:FILE, and then the safe frame from the file. Without
// read there can be no file.
func parseOnStale(s string, read ReadFile) (OnStale, error) {
	file, err := safeFile(s)
	if err != nil || file == "" {
		return OnStale{}, err
	}
	frame, err := readSafe(file, read)
	if err != nil {
		return OnStale{}, fmt.Errorf("%q: the safe frame cannot be used: %w", s, err)
	}
	return OnStale{file, frame}, nil
}

// safeFile returns FILE of put:FILE, and nothing for keep.
func safeFile(s string) (string, error) {
	if s == keepStale {
		return "", nil
	}
	file, put := strings.CutPrefix(s, putStale)
	if !put || file == "" {
		return "", fmt.Errorf("%q: want keep, or put:FILE with a file that holds the safe frame", s)
	}
	return file, nil
}

func readSafe(file string, read ReadFile) (string, error) {
	if read == nil {
		return "", errors.New("no file is read here")
	}
	frame, err := read(file, maxSafeFrame+1)
	switch {
	case err != nil:
		return "", err
	case len(frame) == 0:
		return "", errors.New("the file is empty")
	case len(frame) > maxSafeFrame:
		return "", fmt.Errorf("the file is larger than %d KiB", maxSafeFrame>>10)
	}
	return string(frame), nil
}

// String prints it as parseOnStale reads it.
func (o OnStale) String() string {
	if o.File == "" {
		return keepStale
	}
	return putStale + o.File
}

// check refuses one that came without its frame.
func (o OnStale) check() error {
	if o.File != "" && (o.Frame == "" || len(o.Frame) > maxSafeFrame) {
		return fmt.Errorf("on_stale %v: the safe frame is missing, or larger than %d KiB", o, maxSafeFrame>>10)
	}
	return nil
}

// onStaleOf takes what the control API carries: the frame comes with it, since a
// daemon reads no file because somebody else names it.
func onStaleOf(text string, frame []byte) (OnStale, error) {
	file, err := safeFile(cmp.Or(text, keepStale))
	if err != nil {
		return OnStale{}, fmt.Errorf("on_stale %w", err)
	}
	if file == "" {
		return OnStale{}, nil
	}
	return OnStale{file, string(frame)}, nil
}

// leastDeadline is the shortest deadline: below it the timers of the system are
// what is late.
const leastDeadline = time.Millisecond

// parseDeadline reads a time of at least 1 ms; none and 0 are no deadline.
func parseDeadline(s string) (time.Duration, error) {
	if s == "none" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 0 && d < leastDeadline {
		return 0, fmt.Errorf("%q: want a time of 1ms at least, as in 200ms, or none", s)
	}
	return d, nil
}

func deadlineText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}
