package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// readConfig reads a configuration file into s. Keys that the file does not
// name keep their value; a key that does not exist is an error with its line.
func readConfig(path string, s *settings) error {
	f, err := os.Open(path)
	if err != nil {
		return misused(fmt.Errorf("config: %w", err), "")
	}
	defer f.Close()
	dec := yaml.NewDecoder(f, yaml.DisallowUnknownField())
	err = dec.Decode(s)
	if errors.Is(err, io.EOF) {
		return nil // an empty file
	}
	if err != nil {
		return misused(configError(path, err), "known keys: "+strings.Join(configKeys(), " "))
	}
	if err := dec.Decode(&settings{}); !errors.Is(err, io.EOF) {
		return misused(fmt.Errorf("config %s: more than one document", path), "leave out the line ---")
	}
	return nil
}

// configError puts file and line in front, and speaks of keys, not of Go.
func configError(path string, err error) error {
	where, text := path, err.Error()
	at, ok := errors.AsType[yaml.Error](err)
	if ok {
		text = at.GetMessage()
		if at.GetToken() != nil {
			where = fmt.Sprintf("%s:%d", path, at.GetToken().Position.Line)
		}
	}
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok && unknown.Token != nil {
		text = fmt.Sprintf("unknown key %q", unknown.Token.Value)
	}
	if _, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok {
		text += "; lists are written ['a', 'b']"
	}
	return fmt.Errorf("config %s: %s", where, text)
}

// configKeys are the keys of the configuration file.
func configKeys() []string {
	var keys []string
	for f := range reflect.TypeFor[settings]().Fields() {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}
