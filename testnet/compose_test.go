package testnet_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The containers of docker-compose.yml, as a user starts them: every channel
// the robot publishes can be read on the planner, and moves on.
func TestComposePlannerFollowsRobot(t *testing.T) {
	compose := startCompose(t)
	for _, channel := range []string{"robot.imu", "robot.joints", "robot.camera"} {
		first := compose.awaitFrameAfter("planner", channel, 0)
		second := compose.awaitFrameAfter("planner", channel, first)
		t.Logf("%s: frame %d, then %d", channel, first, second)
	}
	compose.awaitHealthy("robot")
	compose.awaitHealthy("planner")
}

// compose is a running project of docker-compose.yml.
type compose struct {
	t       *testing.T
	command []string
}

// startCompose builds the image, starts the services and takes them down at
// the end of the test; what they logged is shown when it failed.
func startCompose(t *testing.T) *compose {
	t.Helper()
	c := &compose{t: t, command: composeCommand(t)}
	must(t, "bash", "image/build.sh")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", must(t, c.command[0], append(c.command[1:], "logs", "--no-color", "--tail=40")...))
		}
		must(t, c.command[0], append(c.command[1:], "down", "--volumes", "--timeout", "5")...)
	})
	must(t, c.command[0], append(c.command[1:], "up", "--build", "--detach")...)
	return c
}

// composeCommand is docker-compose or docker compose with our file and a
// project of our own, so that a user's containers are not touched.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("needs a running Docker Engine (apt-get install docker.io docker-compose, or your distribution's): docker info: %v: %s", err, lastLine(out))
	}
	args := []string{"-f", "../docker-compose.yml", "-p", "achbridge-test"}
	for _, command := range [][]string{{"docker-compose"}, {"docker", "compose"}} {
		if exec.Command(command[0], append(command[1:], "version")...).Run() == nil {
			return append(command, args...)
		}
	}
	t.Skip("needs docker-compose: apt-get install docker-compose, or Docker's compose plugin")
	return nil
}

// awaitFrameAfter reads the newest frame of a channel in a service's container
// until its stamp is past seq, and returns the stamp.
func (c *compose) awaitFrameAfter(service, channel string, seq uint64) uint64 {
	c.t.Helper()
	var got uint64
	c.await(func() error {
		frame, err := c.in(service, "achbridge", "channel", "cat", channel, "--last", "--count", "1")
		if err != nil {
			return err
		}
		if len(frame) < 8 {
			return fmt.Errorf("%s: a frame of %d bytes, want one with a stamp", channel, len(frame))
		}
		if got = binary.LittleEndian.Uint64(frame); got <= seq {
			return fmt.Errorf("%s: frame %d, want one after %d", channel, got, seq)
		}
		return nil
	})
	return got
}

// awaitHealthy waits for what the service's health check asks.
func (c *compose) awaitHealthy(service string) {
	c.t.Helper()
	c.await(func() error {
		_, err := c.in(service, "achbridge", "status")
		return err
	})
}

// in runs a command in a service's container and returns its standard output.
func (c *compose) in(service string, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	args := append(append(c.command[1:len(c.command):len(c.command)], "exec", "-T", service), command...)
	var complaint strings.Builder
	cmd := exec.CommandContext(ctx, c.command[0], args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w: %s", service, strings.Join(command, " "), err, lastLine([]byte(complaint.String())))
	}
	return out, nil
}

// await repeats a question until it has no error.
func (c *compose) await(ask func() error) {
	c.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("after 60 s: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// must runs a command that has to work, and returns what it printed.
func must(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
