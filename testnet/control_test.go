package testnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// api asks the daemon of a host what its control socket tells, without the cost
// of a process: the socket is reached through the file system of the host.
func (s *site) api(host, path string, v any) error {
	pid, err := s.lab.PID(host)
	if err != nil {
		return err
	}
	socket := filepath.Join("/proc", fmt.Sprint(pid), "root/run/achbridge/control.sock")
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
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
		return fmt.Errorf("%s on %s: %s", path, host, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(v)
}
