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

// get asks the daemon of a host what its control socket tells, without the cost
// of a process: the socket is reached through the file system of the host.
func (s *site) get(host, path string, v any) error {
	return getFromSocket(s.inside(host, "/run/achbridge/control.sock"), path, v)
}

// getFromSocket asks the daemon that listens on a control socket.
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

// daemonStatus is what `achbridge status --json` tells.
type daemonStatus struct {
	Goroutines int `json:"goroutines"`
	status.Report
}

// status asks the daemon of a host, and waits for one that starts.
func (s *site) status(host string) (got daemonStatus) {
	s.t.Helper()
	await.NoError(s.t, func() error { return s.get(host, "/v1/status", &got) })
	return got
}

// linkedOver waits until a host has one link, over a transport.
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

// shmDir is where a host has its channels, seen from outside the host: to be
// looked at and never to be locked, for the lock of a channel names its owner as
// the host's own processes know it.
func (s *site) shmDir(host string) localach.Dir {
	s.t.Helper()
	return localach.Dir(s.inside(host, "/dev/shm"))
}

// channel opens a channel of a host, to be looked at.
func (s *site) channel(host, name string) *localach.Channel {
	s.t.Helper()
	ch, err := s.shmDir(host).Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ch.Close() })
	return ch
}

// channels are the names of a host's channels.
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

// putCount is how many frames were ever put into a channel of a host.
func (s *site) putCount(host, name string) uint64 {
	s.t.Helper()
	ch, err := s.shmDir(host).Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer ch.Close()
	return ch.LastSeq()
}
