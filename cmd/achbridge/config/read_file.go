package config

import (
	"io"
	"os"
)

// ReadFile returns the first bytes of a file, at most so many: rule.ReadFile for safe
// frames.
func ReadFile(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
