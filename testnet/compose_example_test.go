package testnet_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// Runs the test script of examples/compose, which must pass, and fail if the planner has another key.
func TestComposeExample(t *testing.T) {
	need.Long(t)
	need.Processes(t)
	command := composeCommand(t)
	if out, err := exec.Command("bash", "compose/example.sh").CombinedOutput(); err != nil {
		t.Fatalf("testnet/compose/example.sh: %v\n%s", err, out)
	}
	project, otherKey := projectOf("example.yml"), "achkey1-"+strings.Repeat("A", 43)
	const works, failsToWait = 0, 1
	for _, test := range []struct {
		name, more string
		code       int
		want       string // in the output
	}{
		{"one key", "", works, "robot.joints"},
		{"another key", ":../../testnet/compose/wrong_key.yml", failsToWait, "robot.joints is waiting: no link to robot"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(name string, args ...string) (string, int) {
				cmd := exec.Command(name, args...)
				cmd.Dir = "../examples/compose"
				cmd.Env = append(os.Environ(), "COMPOSE="+strings.Join(command, " "), "COMPOSE_PROJECT_NAME="+project,
					"COMPOSE_FILE=docker-compose.yml:../../testnet/compose/scratch.yml"+test.more, "WRONG_KEY="+otherKey)
				out, _ := cmd.CombinedOutput()
				return string(out), cmd.ProcessState.ExitCode()
			}
			t.Cleanup(func() { run(command[0], append(command[1:len(command):len(command)], "down", "--rmi", "local")...) })
			if out, code := run("bash", "test.sh"); code != test.code || !strings.Contains(out, test.want) {
				t.Fatalf("got exit code %d, want %d and %q:\n%s", code, test.code, test.want, out)
			}
		})
	}
}
