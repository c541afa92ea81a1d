package testnet_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// mirrors maps services to the names of channels that are read there.
type mirrors map[string][]string

// hostPath returns the path on this machine of a container's file. Reading it costs nothing, while
// `docker exec` takes seconds on a busy machine.
func (c *compose) hostPath(service, path string) string {
	var pid int
	c.inspect(service, "{{json .State.Pid}}", &pid)
	return filepath.Join(fmt.Sprintf("/proc/%d/root", pid), path)
}

// follow waits until each of the mirrors has received two more frames. It logs and returns how long
// that took.
func (c *compose) follow(list mirrors) time.Duration {
	c.t.Helper()
	begin := time.Now()
	last := ""
	for service, channels := range list {
		memory := localach.Dir(c.hostPath(service, "/dev/shm"))
		before := map[string]uint64{}
		for _, channel := range channels {
			await.NoError(c.t, func() error {
				frame, err := newestFrame(memory, channel)
				if err != nil {
					return fmt.Errorf("%s: %w", service, err)
				}
				if at, known := before[channel]; !known || frame < at { // the file was replaced
					before[channel] = frame
				}
				if frame < before[channel]+2 {
					return fmt.Errorf("%s: %s: its newest frame is number %d, and was %d when we began to wait", service, channel, frame, before[channel])
				}
				last = service + ":" + channel
				return nil
			})
		}
	}
	took := time.Since(begin)
	c.t.Logf("%d services follow after %v, %s last", len(list), took.Round(10*time.Millisecond), last)
	return took
}

// newestFrame returns the number of the newest frame of a channel.
func newestFrame(dir localach.Dir, name string) (uint64, error) {
	ch, err := dir.Open(name)
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	return ch.LastSeq(), nil
}

// checkReadable checks that a program in the container can read a frame from each of the mirrors.
func (c *compose) checkReadable(list mirrors) {
	c.t.Helper()
	for service, channels := range list {
		for _, channel := range channels {
			frame, err := c.output(service, "achbridge", "channel", "cat", channel, "--last", "--count", "1")
			if err != nil || len(frame) < 16 || binary.LittleEndian.Uint64(frame[8:]) == 0 {
				c.t.Errorf("%s: %s: got a frame of %d bytes, %v, want one of publisher", service, channel, len(frame), err)
			}
		}
	}
}

// observerOf maps each service to another that has a link to it.
var observerOf = map[string]string{"robot": "planner", "planner": "robot", "operator": "robot"}

// waitUntilMissed waits until another service has noticed that a service does not answer: the link
// to it is silent, or gone.
func (c *compose) waitUntilMissed(service string) {
	c.t.Helper()
	begin := time.Now()
	await.NoError(c.t, func() error {
		if up := c.linked(observerOf[service], service); len(up) > 0 {
			return fmt.Errorf("%s: its link to %s is up", observerOf[service], service)
		}
		return nil
	})
	c.t.Logf("%s misses %s after %v", observerOf[service], service, time.Since(begin).Round(10*time.Millisecond))
}

// status returns the status of a service's daemon.
func (c *compose) status(service string) (got daemonStatus) {
	c.t.Helper()
	socket := c.hostPath(service, "/run/achbridge/control.sock")
	await.NoError(c.t, func() error { return getFromSocket(socket, "/v1/status", &got) })
	return got
}

// linked returns the hosts with names that begin with prefix to which a service has a
// link that is not silent.
func (c *compose) linked(service, prefix string) (hosts []string) {
	c.t.Helper()
	for _, l := range c.status(service).Links {
		if l.State == "up" && strings.HasPrefix(l.Peer, prefix) {
			hosts = append(hosts, l.Peer)
		}
	}
	return hosts
}

// waitUntilHealthy waits until the service's health check passes.
func (c *compose) waitUntilHealthy(service string) {
	c.t.Helper()
	await.NoError(c.t, func() error {
		var health struct{ Status string }
		c.inspect(service, "{{json .State.Health}}", &health)
		if health.Status != "healthy" {
			return fmt.Errorf("%s: got health %q, want healthy", service, health.Status)
		}
		return nil
	})
}
