package testnet_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// mirrors are the names of channels by the service where they are read.
type mirrors map[string][]string

// follow waits until each of the mirrors holds a frame that was put at its origin
// after the call, and logs and returns how long that took. A look at a mirror takes a
// tenth of a second and more.
func (c *compose) follow(list mirrors) time.Duration {
	c.t.Helper()
	begin := clock()
	took := map[string]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for service, channels := range list {
		for _, channel := range channels {
			all.Go(func() {
				err := within(await.Deadline(), func() error { return c.freshSince(begin, service, channel) })
				mu.Lock()
				defer mu.Unlock()
				took[service+":"+channel] = clock() - begin
				if err != nil {
					c.t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	worst := ""
	for name := range took {
		if took[name] >= took[worst] {
			worst = name
		}
	}
	c.t.Logf("%d mirrors follow after %v, %s last", len(took), took[worst].Round(10*time.Millisecond), worst)
	return took[worst]
}

// freshSince is an error unless the newest frame of a channel was put at its origin
// after moment.
func (c *compose) freshSince(moment time.Duration, service, channel string) error {
	frame, err := c.ask(service, "achbridge", "channel", "cat", channel, "--last", "--count", "1")
	if err != nil {
		return err
	}
	if len(frame) < 16 {
		return fmt.Errorf("%s: %s: a frame of %d bytes, want one of publisher", service, channel, len(frame))
	}
	if put := time.Duration(binary.LittleEndian.Uint64(frame[8:])); put <= moment {
		return fmt.Errorf("%s: %s: its newest frame was put %v before we began to wait", service, channel, moment-put)
	}
	return nil
}

// clock is CLOCK_MONOTONIC, which the containers share with us and publisher writes
// into its frames.
func clock() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail: the clock exists, the pointer is good
	return time.Duration(now.Nano())
}

// witness is for each service another that has a link to it.
var witness = map[string]string{"robot": "planner", "planner": "robot", "operator": "robot"}

// missed waits until another service has noticed that one is away: the link to it is
// silent, or gone.
func (c *compose) missed(service string) {
	c.t.Helper()
	begin := time.Now()
	await.NoError(c.t, func() error {
		if up := c.linked(witness[service], service); len(up) > 0 {
			return fmt.Errorf("%s: its link to %s is up", witness[service], service)
		}
		return nil
	})
	c.t.Logf("%s misses %s after %v", witness[service], service, time.Since(begin).Round(10*time.Millisecond))
}

// linked are the hosts whose name begins with prefix to which a service has a link
// that is not silent.
func (c *compose) linked(service, prefix string) []string {
	c.t.Helper()
	out, err := c.ask(service, "achbridge", "status", "--json")
	if err != nil {
		c.t.Fatal(err)
	}
	var got struct {
		Links []struct{ Peer, State string }
	}
	if err := json.Unmarshal(out, &got); err != nil {
		c.t.Fatalf("%s: status: %v", service, err)
	}
	var hosts []string
	for _, l := range got.Links {
		if l.State == "up" && strings.HasPrefix(l.Peer, prefix) {
			hosts = append(hosts, l.Peer)
		}
	}
	return hosts
}

// healthy waits for the verdict of the service's health check.
func (c *compose) healthy(service string) {
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

// within repeats a question until it has no error, and returns the last one after the deadline:
// await.NoError for goroutines of a test.
func within(deadline time.Time, ask func() error) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		if err := ask(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
