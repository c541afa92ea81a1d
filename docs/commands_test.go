// Package docs_test tests README.md and the documents in docs. It runs every command line in
// them on the host of its prompt, and compares the output with the documented output.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// excepted lists the command lines that are not run, each with the reason. All other lines of
// sh and console blocks are run.
var excepted = []struct {
	line *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`^(ACHBRIDGE_\w+=\S+ |ACH_VECTORS=\S+ )*go test `), "it would run itself; .ci/run runs these"},
	{regexp.MustCompile(`^bash \.ci/run`), "it runs this test"},
	{regexp.MustCompile(`^bash packaging/vm\.sh`), "five minutes on an emulated computer; stage vm of .ci/run"},
	{regexp.MustCompile(`^ACHBRIDGE_SOAK=\S+ go test .*TestSoak`), "as long as one likes; stage soak of .ci/run"},
	{regexp.MustCompile(`docker build `), "it needs a registry of images"},
	{regexp.MustCompile(`^bash examples/compose/test\.sh`), "it needs that image; TestComposeExample runs it on another"},
	{regexp.MustCompile(`^ssh -L `), "no emulated host has an SSH server"},
	{regexp.MustCompile(`^sudo `), "it changes the system; packaging/test.sh and vm.sh run these on one of their own"},
}

// Emulated hosts have no SSH server. For ssh and scp the test does the same to the hosts'
// files itself: see scp and ssh in run_test.go.

// slow lists the command lines that take long, or that need a program that a machine may lack.
// They are run only with ACHBRIDGE_LONG=1.
var slow = []struct {
	line *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`^bash packaging/(build|notices)\.sh`), "it compiles everything for another system"},
	{regexp.MustCompile(`^bash testnet/image/build\.sh|^docker-compose `), "containers take a minute to build, start and end"},
	{regexp.MustCompile(`^go (build|install) `), "it builds again what the documents' tools were built from"},
	{regexp.MustCompile(`^go run \./testnet/versus `), "a minute"},
	{regexp.MustCompile(`^go run \./cmd/achbridge demo`), "ten seconds on an idle machine; stage demo of .ci/run measures it"},
}

// everyday is the document whose lines are always run. The lines of other documents are run
// only with ACHBRIDGE_LONG=1. The test always checks that it knows how to run all lines.
const everyday = "README.md"

// bare lists the documents that begin with two hosts on which nothing is set up. All others
// begin where README.md's quick start ends: robot publishes imu, joints and camera, both
// hosts have its key and run their daemons, and pc mirrors all channels of robot.
var bare = []string{"README.md", "keys.md", farApart}

func TestMain(m *testing.M) {
	hosts.Main()
	// The tests of documents mostly wait for daemons: run six at a time, unless -parallel is given.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(await.Main(m))
}

// TestCommandLinesOfDocuments runs the command lines of each document in their order.
func TestCommandLinesOfDocuments(t *testing.T) {
	need.Processes(t)
	tools := buildTools(t)
	for _, path := range documents(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			steps := stepsOf(t, path)
			for _, s := range steps {
				if s.line != "" && !known(t, s) {
					t.Errorf("%s: cannot run %q: add it to docs/run_test.go, or to excepted with a reason", s.at, s.line)
				}
			}
			if t.Failed() || len(steps) == 0 {
				return
			}
			if filepath.Base(path) != everyday {
				need.Long(t)
			}
			run(t, filepath.Base(path), tools, steps)
		})
	}
}

// documents returns README.md, the other documents at the top of the repository, and those in docs.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"../*.md", "*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	if !slices.Contains(list, "../README.md") {
		t.Fatalf("got the documents %q, want README.md and those in docs/", list)
	}
	return list
}

// exception returns the reason why a line is never run.
func exception(line string) (why string, ok bool) {
	for _, e := range excepted {
		if e.line.MatchString(line) {
			return e.why, true
		}
	}
	return "", false
}

// skipReason returns the reason why a line is not run on this machine or in a short run.
func skipReason(line string) (why string, ok bool) {
	for _, e := range slow {
		if e.line.MatchString(line) && !need.IsLong() {
			return e.why + ": set ACHBRIDGE_LONG=1", true
		}
	}
	if _, err := exec.LookPath("python3"); err != nil && strings.Contains(line, "python3 ") {
		return "needs python3", true
	}
	if _, err := exec.LookPath("nats-server"); err != nil && strings.HasPrefix(line, "nats-server ") {
		return "needs Debian's nats-server: apt-get install nats-server", true
	}
	if strings.Contains(line, "docker") {
		if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
			return fmt.Sprintf("needs a Docker Engine: %v: %s", err, out), true
		}
	}
	return "", false
}

// isCommand reports whether achbridge has a command of that name. Other names are errors of the document.
func isCommand(t *testing.T, name string) bool {
	t.Helper()
	flags, err := os.ReadFile("../cmd/achbridge/testdata/outside/flags.golden")
	if err != nil {
		t.Fatal(err)
	}
	return name == "ch" || name == "help" || strings.Contains(string(flags), "\nachbridge "+name+"\n")
}

// programs lists the programs, besides those of the project, that documents may run.
var programs = strings.Fields(`./fresh bash cat cc cd cp docker docker-compose echo exit export fuser go grep head kill mkdir
	mv nats-server printf pwd python3 scp ssh sleep true`)

var separators = regexp.MustCompile(`\s*(?:&&|\|\||[;|&])\s*`)

// known reports whether the test knows how to run each command of a line.
func known(t *testing.T, s step) bool {
	t.Helper()
	if _, ok := exception(s.line); ok {
		return true
	}
	line, _, _ := strings.Cut(s.line, "   #")
	for _, command := range separators.Split(unquoted(line), -1) {
		words := strings.Fields(command)
		for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "--") {
			words = words[1:]
		}
		switch {
		case len(words) == 0:
		case s.host == "lab" && words[0] == "lab", s.host == "" && strings.HasPrefix(command, "lab run "):
		case words[0] == "achbridge" && len(words) > 1 && isCommand(t, words[1]):
		case slices.Contains(programs, words[0]):
		default:
			return false
		}
	}
	return true
}

// unquoted returns a line with Q in place of each quoted text and command substitution.
func unquoted(line string) string {
	return regexp.MustCompile(`'[^']*'|"[^"]*"|\$\(.*\)`).ReplaceAllString(line, "Q")
}

func itoa(n int) string { return strconv.Itoa(n) }

// clue returns the text of a failure with its place and command line.
func clue(s step, format string, args ...any) string {
	return fmt.Sprintf("%s: %s\n\t%s", s.at, s.line, fmt.Sprintf(format, args...))
}
