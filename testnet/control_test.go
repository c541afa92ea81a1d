package testnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/await"
)

// get requests path from the control socket of a host's daemon. It starts no process,
// since it reaches the socket through the host's file system.
func (s *site) get(host, path string, v any) error {
	return getFromSocket(s.inside(host, "/run/achbridge/control.sock"), path, v)
}

// getFromSocket requests path from a control socket.
func getFromSocket(socket, path string, v any) error {
	client := http.Client{Timeout: await.Limit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	answer, err := client.Get("http://achbridge" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s on %s: %s", path, socket, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// daemonStatus is the output of `achbridge status --json`.
type daemonStatus struct {
	Goroutines int `json:"goroutines"`
	status.Report
}

// status returns the status of a host's daemon. It waits for a daemon that starts.
func (s *site) status(host string) (got daemonStatus) {
	s.t.Helper()
	await.NoError(s.t, func() error { return s.get(host, "/v1/status", &got) })
	return got
}

// linkedOver waits until a host has one link, over the given transport.
func (s *site) linkedOver(host, transport string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		l := s.status(host).Links
		if len(l) != 1 || l[0].Transport.String() != transport || l[0].State != "up" {
			return fmt.Errorf("links of %s: got %+v, want one over %s", host, l, transport)
		}
		return nil
	})
}

// shmDir returns the directory of a host's channels as a path on this machine. Only
// read them without their locks: a lock stores the thread id of its owner, which is
// valid only inside the host.
func (s *site) shmDir(host string) localach.Dir {
	s.t.Helper()
	return localach.Dir(s.inside(host, "/dev/shm"))
}

// channel opens a channel of a host, for reading without its lock.
func (s *site) channel(host, name string) *localach.Channel {
	s.t.Helper()
	ch, err := s.shmDir(host).Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ch.Close() })
	return ch
}

// channels returns the names of a host's channels.
func (s *site) channels(host string) (names []string) {
	s.t.Helper()
	files, err := os.ReadDir(string(s.shmDir(host)))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		if name, is := strings.CutPrefix(f.Name(), "achshm-"); is {
			names = append(names, name)
		}
	}
	return names
}

// putCount returns how many frames were ever put into a channel of a host.
func (s *site) putCount(host, name string) uint64 {
	s.t.Helper()
	ch, err := s.shmDir(host).Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer ch.Close()
	return ch.LastSeq()
}
