package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OnStale determines the content of a command channel whose writer is lost, that is, after a deadline without a
// frame. The zero value keeps the last command. Values are comparable.
type OnStale struct {
	File  string // file that the safe frame was read from; empty means keep
	Frame string // bytes of the safe frame
}

const (
	keepStale = "keep"
	putStale  = "put:"
)

// maxSafeFrame is the greatest size of a safe frame.
const maxSafeFrame = 32 << 10

// ReadFile returns at most the first most bytes of a file. Callers provide it, since this package does not read
// files.
type ReadFile func(file string, most int64) ([]byte, error)

// parseOnStale parses keep or put:FILE, and reads the safe frame from FILE. If read is nil, only keep is
// accepted.
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

// safeFile returns FILE of put:FILE, and "" for keep.
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
		return "", errors.New("files cannot be read here")
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

// String returns the form that parseOnStale parses.
func (o OnStale) String() string {
	if o.File == "" {
		return keepStale
	}
	return putStale + o.File
}

// check returns an error if the safe frame is missing or too large.
func (o OnStale) check() error {
	if o.File != "" && (o.Frame == "" || len(o.Frame) > maxSafeFrame) {
		return fmt.Errorf("on_stale %v: the safe frame is missing, or larger than %d KiB", o, maxSafeFrame>>10)
	}
	return nil
}

// onStaleOf parses the form of the control API, which includes the frame. The daemon must not read a file that
// an API client names.
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

// leastDeadline is the shortest deadline. The system's timers are not exact enough for shorter ones.
const leastDeadline = time.Millisecond

// parseDeadline parses a time of at least 1 ms; none and 0 mean no deadline.
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
