package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/ui"
)

// KeyText is the environment variable that holds the text of the network key, in place of a key file.
const KeyText = "ACHBRIDGE_KEY_TEXT"

// TakeKeyText removes KeyText from the environment of this process, so that no child process gets the key, and
// from /proc/PID/environ. It returns a function like os.Getenv that still returns the text. Its error is that
// /proc/PID/environ still has the text. Call it once, before other goroutines start.
func TakeKeyText() (env func(string) string, err error) {
	text := os.Getenv(KeyText)
	if text == "" {
		return os.Getenv, nil
	}
	if err := os.Unsetenv(KeyText); err != nil {
		return os.Getenv, err
	}
	return func(name string) string {
		if name == KeyText {
			return text
		}
		return os.Getenv(name)
	}, eraseInitial(KeyText)
}

// eraseInitial overwrites the value of a variable with zeros in the memory that the kernel shows as /proc/PID/environ:
// it holds the environment with which the process was started.
func eraseInitial(name string) error {
	environ, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	start, err := environStart()
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	offset := int64(0)
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			if _, err := mem.WriteAt(make([]byte, len(value)), start+offset+int64(len(name)+1)); err != nil {
				return err
			}
		}
		offset += int64(len(entry) + 1)
	}
	return nil
}

// environStart returns the address of the initial environment, field env_start of proc_pid_stat(5).
func environStart() (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	const envStart, afterName = 50, 3 // numbers of fields; the second field, the program's name, may have spaces
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= envStart-afterName {
		return 0, errors.New("/proc/self/stat: no field env_start")
	}
	return strconv.ParseInt(string(fields[envStart-afterName]), 10, 64)
}

// Key returns the network key and the path of its file. given and find are as for KeyFile. If KeyText is set, Key
// returns that key and no path, and an error if a key file is named too.
func (p Places) Key(given string, find func() (string, error)) (key trust.Key, path string, err error) {
	text := p.Env(KeyText)
	if text == "" {
		if path, err = p.KeyFile(given, find); err == nil {
			key, err = ReadKey(path)
		}
		return key, path, err
	}
	file := "key file " + given
	if variable := EnvName("key"); p.Env(variable) != "" {
		file, given = variable, cmp.Or(given, p.Env(variable))
	}
	if given != "" {
		return key, "", ui.Usage(fmt.Errorf("%s and %s are both set", KeyText, file), "remove one of them")
	}
	if key, err = trust.ParseKey(text); err != nil {
		return key, "", ui.Usage(fmt.Errorf("%s: %w", KeyText, err), "set it to the content of a key file")
	}
	return key, "", nil
}
