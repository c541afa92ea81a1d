package testnet_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// listed is one line of `achbridge ls --json`, with all its keys.
type listed struct {
	Host       string   `json:"host"`
	Channel    string   `json:"channel"`
	FrameCount int      `json:"frame_count"`
	FrameSize  int      `json:"frame_size"`
	Node       string   `json:"node"`
	Addrs      []string `json:"addrs"`
	MirroredAs string   `json:"mirrored_as"`
	Unproved   bool     `json:"unproved"`
	Way        string   `json:"way"`
}

// ls asks a host what it could mirror; code is the program's exit code.
func (s *site) ls(host string, args ...string) (list []listed, code int) {
	s.t.Helper()
	stdout, stderr, code := s.verb(host, append([]string{"ls", "--json"}, args...)...)
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		s.t.Fatalf("ls on %s: %v in %q %s", host, err, stdout, stderr)
	}
	return list, code
}

// What ls exits with.
const (
	codeOK      = 0
	codeNothing = 3
)

func sameNames(list []listed, want ...string) error {
	var got []string
	for _, c := range list {
		got = append(got, c.Host+"/"+c.Channel)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("listed: got %v, want %v", got, want)
	}
	return nil
}
