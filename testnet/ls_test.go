package testnet_test

import (
	"encoding/json"
	"strings"
)

// listed is one entry of `achbridge ls --json`, with all its keys.
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
	Kind       string   `json:"kind"`
}

// ls runs achbridge ls --json on a host and returns the entries and the exit code.
func (s *site) ls(host string, args ...string) (list []listed, code int) {
	s.t.Helper()
	stdout, stderr, code := s.achbridge(host, append([]string{"ls", "--json"}, args...)...)
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		s.t.Fatalf("ls on %s: %v in %q %s", host, err, stdout, stderr)
	}
	return list, code
}

// Exit codes of ls.
const (
	codeOK      = 0
	codeNothing = 3
)
