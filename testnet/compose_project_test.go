package testnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// compose is a running project of docker-compose.yml.
type compose struct {
	t       *testing.T
	project string
	command []string          // docker-compose with our files and project
	ids     map[string]string // containers by service, or by the name given to start
}

// startCompose builds the image and starts the services of files. When the test ends it
// removes them, and prints their logs if the test has failed.
func startCompose(t *testing.T, files ...string) *compose {
	t.Helper()
	need.Processes(t)
	c := &compose{t: t, command: composeCommand(t), project: projectOf(files[0]), ids: map[string]string{}}
	removeLeftovers(t, c.command)
	for _, file := range files {
		c.command = append(c.command, "-f", "../"+file)
	}
	c.command = append(c.command, "-p", c.project)
	if err := buildImage(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.tearDown)
	c.compose("up", "--build", "--detach")
	for _, service := range strings.Fields(c.compose("config", "--services")) {
		c.ids[service] = strings.TrimSpace(c.compose("ps", "-q", service))
	}
	return c
}

// buildImage creates the files that the services need: the program, the keys, and a hub's directory.
var buildImage = sync.OnceValue(func() error {
	out, err := exec.Command("bash", "compose/build.sh").CombinedOutput()
	if err != nil {
		return fmt.Errorf("testnet/compose/build.sh: %w\n%s", err, out)
	}
	return nil
})

// composeCommand returns the command docker-compose or docker compose.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("needs a running Docker Engine (apt-get install docker.io docker-compose, or your distribution's): docker info: %v: %s", err, lastLine(out))
	}
	for _, command := range [][]string{{"docker-compose"}, {"docker", "compose"}} {
		if exec.Command(command[0], append(command[1:], "version")...).Run() == nil {
			return command
		}
	}
	t.Skip("needs docker-compose: apt-get install docker-compose, or Docker's compose plugin")
	return nil
}

// projects is the prefix of our projects' names. The name of the services' file, the process
// id of the test and a random part follow. The tests change no containers of other projects.
const projects = "achbridge-test-"

func projectOf(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return fmt.Sprintf("%s%s-%d-%08x", projects, name, os.Getpid(), rand.Uint32())
}

// removeLeftovers removes the containers of tests that were killed.
func removeLeftovers(t *testing.T, command []string) {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-a", "--format", `{{.Label "com.docker.compose.project"}}`).Output()
	if err != nil {
		t.Fatalf("docker ps: %v", err)
	}
	done := map[string]bool{}
	for _, project := range strings.Fields(string(out)) {
		found := regexp.MustCompile(`^` + projects + `[a-z-]+-(\d+)-[0-9a-f]+$`).FindStringSubmatch(project)
		if found == nil || done[project] {
			continue
		}
		if pid, _ := strconv.Atoi(found[1]); syscall.Kill(pid, 0) == syscall.ESRCH {
			done[project] = true
			for _, file := range []string{"../docker-compose.yml", "../" + hubFile} { // one of them is the project's file
				c := &compose{t: t, project: project, command: append(command[:len(command):len(command)], "-f", file, "-p", project)}
				c.down()
			}
		}
	}
}

// tearDown removes the project and checks that no part of it is left.
func (c *compose) tearDown() {
	if c.t.Failed() {
		for name, id := range c.ids {
			out, _ := exec.Command("docker", "logs", "--tail", "60", id).CombinedOutput()
			c.t.Logf("%s:\n%s", name, out)
		}
	}
	c.down()
	label := "label=com.docker.compose.project=" + c.project
	for _, left := range []string{
		c.docker("ps", "--all", "--quiet", "--filter", label),
		c.docker("network", "ls", "--quiet", "--filter", label),
		c.docker("images", "--quiet", "--filter", "reference="+c.project+"*"),
	} {
		if left != "" {
			c.t.Errorf("left behind: %s", left)
		}
	}
}

func (c *compose) down() {
	ids := strings.Fields(c.docker("ps", "--quiet", "--filter", "status=paused", "--filter", "label=com.docker.compose.project="+c.project))
	for _, id := range ids {
		c.docker("unpause", id)
	}
	c.compose("down", "--rmi", "local", "--volumes", "--timeout", "5")
}

// step runs a part of the test. If it fails, the test ends, since later parts depend on it.
func (c *compose) step(name string, f func(*compose)) {
	c.t.Helper()
	ok := c.t.Run(name, func(t *testing.T) {
		part := *c
		part.t = t
		f(&part)
	})
	if !ok {
		c.t.FailNow()
	}
}

// startRobot starts a robot besides those of docker-compose.yml. Its name on the network
// is host.
func (c *compose) startRobot(name, host string) {
	c.t.Helper()
	c.start(name, "achbridge", "run", "--key", "/run/secrets/network_key", "--accept", "plan", "--name", host,
		"--", "achbridge", "publish", "imu:100:64", "joints:20:3000", "camera:5:50000")
}

// start runs a command as a host of the project.
func (c *compose) start(name string, command ...string) {
	c.t.Helper()
	container := c.project + "_" + name
	c.compose(append([]string{"run", "--detach", "--no-deps", "--name", container, "robot"}, command...)...)
	c.ids[name] = container
}

// remove removes a host that start has started.
func (c *compose) remove(name string) {
	c.t.Helper()
	if c.ids[name] != "" && !c.t.Failed() { // tearDown prints the log of a failed test
		c.docker("rm", "--force", c.ids[name])
		delete(c.ids, name)
	}
}

func (c *compose) network() string { return c.project + "_default" }

func (c *compose) disconnect(name string) {
	c.t.Helper()
	c.docker("network", "disconnect", c.network(), c.ids[name])
}

// connect reverts disconnect. Like docker-compose it makes the service's name
// resolvable.
func (c *compose) connect(name string) {
	c.t.Helper()
	c.docker("network", "connect", "--alias", name, c.network(), c.ids[name])
}

// cut disconnects a host from its own network until join is called.
func (c *compose) cut(name, network string) (join func()) {
	c.t.Helper()
	whole := c.project + "_" + network
	c.docker("network", "disconnect", whole, c.ids[name])
	return func() { c.docker("network", "connect", "--alias", name, whole, c.ids[name]) }
}

func (c *compose) address(name string) string {
	c.t.Helper()
	var networks map[string]struct{ IPAddress string }
	c.inspect(name, "{{json .NetworkSettings.Networks}}", &networks)
	return networks[c.network()].IPAddress
}

func (c *compose) inspect(name, format string, v any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.docker("inspect", "--format", format, c.ids[name])), v); err != nil {
		c.t.Fatalf("docker inspect %s: %v", name, err)
	}
}

func (c *compose) logs(name string) string {
	c.t.Helper()
	return c.docker("logs", c.ids[name])
}

func (c *compose) compose(args ...string) string {
	c.t.Helper()
	return c.run(c.command[0], append(c.command[1:len(c.command):len(c.command)], args...)...)
}

func (c *compose) docker(args ...string) string {
	c.t.Helper()
	return c.run("docker", args...)
}

// mustRun runs a command in a container and fails the test if the command fails.
func (c *compose) mustRun(name string, command ...string) {
	c.t.Helper()
	c.docker(append([]string{"exec", c.ids[name]}, command...)...)
}

// run runs a command and returns its output. It fails the test if the command fails.
func (c *compose) run(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "COMPOSE_HTTP_TIMEOUT=600") // in seconds, for a busy engine
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// output runs a command in a container and returns its standard output.
func (c *compose) output(name string, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), await.Limit)
	defer cancel()
	var errOut strings.Builder
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", c.ids[name]}, command...)...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", name, strings.Join(command, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out, err
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
