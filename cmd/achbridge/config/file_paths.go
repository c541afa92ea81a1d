package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"achbridge/bridge/rule"
)

// filePath returns the path of a file that the value of a setting names. Relative paths in the configuration file
// begin at the file's directory, those in flags and the environment at the working directory.
//
// Older versions always used the working directory. If the file exists only there, filePath returns it, with a
// warning. If both exist and differ, filePath returns an error.
func (c *Config) filePath(v value) (string, error) {
	if v.text == "" || v.at.Source != c.Path || c.Path == "" || filepath.IsAbs(v.text) {
		return v.text, nil
	}
	path := filepath.Join(filepath.Dir(c.Path), v.text)
	former, err := os.ReadFile(v.text)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	present, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.warn(v.at, fmt.Sprintf("%s is read from the working directory; move it to %s, or write its whole path", v.text, filepath.Dir(path)))
		return v.text, nil
	case err == nil && !bytes.Equal(former, present):
		return path, fmt.Errorf("%q: %s and the file of that name in the working directory differ; write the whole path", v.text, path)
	}
	return path, nil
}

// reader returns the function that reads the files which the options of a rule name.
func (c *Config) reader(at origin) rule.ReadFile {
	return func(file string, most int64) ([]byte, error) {
		path, err := c.filePath(value{file, at})
		if err != nil {
			return nil, err
		}
		return ReadFile(path, most)
	}
}
