package testnet

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxTrace = 128 << 20 // largest trace in bytes, uncompressed

// ReadTrace reads the trace in a file, which may be compressed by gzip. It also
// reads the trace of the reverse direction, if there is a file with ".down" instead
// of ".up" in its name, or vice versa.
func ReadTrace(file string) (*Trace, error) {
	t, err := readTrace(file)
	if err != nil {
		return nil, err
	}
	if reverse := reverseName(file); exists(reverse) {
		if t.reverse, err = readTrace(reverse); err != nil {
			return nil, err
		}
		t.reverse.reverse = t
	}
	return t, nil
}

// reverseName returns the name of the file for the reverse direction, or "".
func reverseName(file string) string {
	name, isCompressed := strings.CutSuffix(file, ".gz")
	end := ""
	if isCompressed {
		end = ".gz"
	}
	if name, ok := strings.CutSuffix(name, ".up"); ok {
		return name + ".down" + end
	}
	if name, ok := strings.CutSuffix(name, ".down"); ok {
		return name + ".up" + end
	}
	return ""
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return file != "" && err == nil && info.Mode().IsRegular()
}

func readTrace(file string) (*Trace, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("%w; right is the name of a file with a time in ms on each line", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no file; right is one with a time in ms on each line", file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		if b, err = gunzip(b); err != nil {
			return nil, fmt.Errorf("%s: %w; pack it again with gzip", file, err)
		}
	}
	return ParseTrace(file, b)
}

func gunzip(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	if err == nil && len(b) > maxTrace {
		err = fmt.Errorf("more than %d bytes", maxTrace)
	}
	return b, err
}
