package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/testnet/await"
)

// needsPerson maps each cause that commands cannot fix to the reason why it needs a person.
var needsPerson = map[status.Cause]string{
	status.CausePublisherStopped: "only who runs the publisher can mend it; achbridge why on its host tells more",
	status.CausePublisherSlow:    "as before",
	status.CauseAcceptRule:       "who may push what is for the operator to decide",
	status.CauseOperator:         "who has the robot is for the operators to decide",
	status.CauseFileMode:         "who may use a channel is for its owner to decide",
	status.CauseKey:              "a key is copied by a person, over a way that he trusts",
	status.CauseRevoked:          "the authority is on a machine of its own, and the key is copied by a person",
	status.CauseCertificate:      "as before",
	status.CausePeerSilent:       "a cable, a radio or a switched-off host",
	status.CauseMulticast:        "a switch or a firewall, or a restart with --peer",
	status.CauseLinkRate:         "which channels matter is for the operator to decide",
	status.CauseLoss:             "a radio or a cable",
	status.CauseBudget:           "how late a frame may be is for the operator to decide",
	status.CauseClock:            "time alone, or another link",
	status.CauseShmFull:          "which channels nobody needs is for a person to decide",
	status.CauseShmShare:         "which mirrors matter is for the operator to decide",
	status.CauseHostBusy:         "which programs matter is for a person to decide",
	status.CauseSeldomWatched:    "nothing is wrong",
	status.CauseReceiverSlow:     "which process may be ended is for a person to decide",
	status.CauseAch1x:            "the channel is whole; its own achd has to be run",
	status.CauseAch32Bit:         "as before",
	status.CauseOtherLibc:        "as before",
	status.CauseFrameSize:        "programs that use the channel have to be ended",
	status.CauseBadFrame:         "its publisher has to be mended",
	status.CauseLimit:            "which channels matter is for the operator to decide",
	status.CauseLoop:             "from where a channel comes is for the operator to decide",
	status.CauseReaderKilled:     "programs that use the channel have to be ended",
	status.CauseForeignWriter:    "which of the two writers is right is for a person to decide",
	status.CauseTypeMismatch:     "the type is made from the program that puts the frames",
	status.CauseKernelChannel:    "which of the two channels programs are to use is for a person to decide",
	status.CauseKernelMirror:     "what occupies the kernel's channel is for a person to decide",
	status.CauseInotify:          "root sets a sysctl of the whole machine",
	status.CauseCopiedImage:      "which machine is the copy only a person knows",
	status.CauseOther:            "the text says what happened",
}

// causes returns all causes that the source of package status declares.
func causes(t *testing.T) (list []status.Cause) {
	t.Helper()
	files, err := filepath.Glob("../../bridge/status/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, m := range regexp.MustCompile(`(?m)^\s+Cause\w+ +Cause += "(\w+)"`).FindAllStringSubmatch(textOf(t, file), -1) {
			list = append(list, status.Cause(m[1]))
		}
	}
	return list
}

// TestCommandsOfFixesEndProblems runs the commands of every fix that has commands, on the host that the fix names. The problem
// must end, and other channels and mirrors must not change. All other causes must be in needsPerson.
func TestCommandsOfFixesEndProblems(t *testing.T) {
	cured := map[status.Cause]string{}
	t.Run("hosts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: filepath.Join("testdata", "cures"), Setup: setUp, RequireExplicitExec: true,
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"achbridge": runLine,
				"until":     untilTrue,
				"cured": func(ts *testscript.TestScript, neg bool, args []string) {
					if neg || len(args) != 3 {
						ts.Fatalf("usage: cured HOST CAUSE CHANNEL")
					}
					cured[status.Cause(args[1])] = expectCause(ts, args[0], status.Cause(args[1]), args[2])
				},
			},
		})
	})
	for _, cause := range causes(t) {
		why, person := needsPerson[cause]
		switch done, ok := cured[cause]; {
		case ok && person:
			t.Errorf("%s: fixed by %q, want it not to be in needsPerson", cause, done)
		case ok:
			t.Logf("%s: fixed by %s", cause, done)
		case person:
			t.Logf("%s: needs a person, because: %s", cause, why)
		default:
			t.Errorf("%s: no test runs its fix, and it is not in needsPerson", cause)
		}
	}
	if len(cured) == 0 || len(causes(t)) < len(needsPerson) {
		t.Errorf("got %d causes fixed and %d that need a person, want some fixed and each of the others known", len(cured), len(needsPerson))
	}
}

// commandText matches a command in the text of a fix. Its groups are the host to run the command on, empty for the same host,
// and the arguments.
var commandText = regexp.MustCompile(`(?:on (\S+)[:,] [^;]*?)?achbridge ((?:[a-z]+|-\S+|[\w.*-]+/\S+)(?: (?:--?[\w-]+|[A-Za-z0-9_][\w./-]*))*?)(?:$|[;:,(]| names| tells)`)

// expectCause waits until why on host reports cause, runs the commands of its fix, and waits until why no longer reports the cause.
// A cause that was the main diagnosis may remain in the notes. It returns the commands.
func expectCause(ts *testscript.TestScript, host string, cause status.Cause, channel string) string {
	var why api.WhyReport
	ended := false // the commands have run: a channel that no longer exists counts as fixed
	waitUntil := func(until func(diagnose.Finding) bool, what string) {
		for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			why = api.WhyReport{}
			r := onHost(ts, host, "why", channel, "--window", "300ms", "--json")
			_ = json.Unmarshal([]byte(r.Stdout), &why) // empty when why fails
			if r.Code == ui.ExitNothing && ended {     // the channel does not exist
				return
			}
			if r.Stdout != "" && slices.ContainsFunc(append([]diagnose.Finding{why.Finding}, why.Notes...), until) {
				return
			}
			if time.Since(begin) > await.Limit {
				ts.Fatalf("why %s on %s: %s: %+v", channel, host, what, why)
			}
		}
	}
	before, files := witness(ts), channels(ts)
	var text string
	waitUntil(func(f diagnose.Finding) bool { text = f.Fix; return f.Cause == cause }, "it never says "+string(cause))
	isExpected := why.Cause == cause
	var ran []string
	for _, m := range commandText.FindAllStringSubmatch(text, -1) {
		at, args := host, strings.Fields(m[2])
		if m[1] != "" {
			at = m[1]
		}
		if r := onHost(ts, at, args...); r.Code != 0 {
			ts.Fatalf("%s: fix %q: exit code %d: %s", cause, m[2], r.Code, r.Stderr)
		}
		ran = append(ran, "achbridge "+m[2])
	}
	if len(ran) == 0 {
		ts.Fatalf("%s: no command in the fix %q", cause, text)
	}
	ended = true
	is := func(f diagnose.Finding) bool { return f.Cause == cause }
	waitUntil(func(diagnose.Finding) bool {
		return why.Cause != cause && (isExpected || !slices.ContainsFunc(why.Notes, is))
	}, "it is as before after "+strings.Join(ran, ", "))
	if after := witness(ts); after != before {
		ts.Fatalf("fix %q: got witness %q, want it unchanged: %q", ran, after, before)
	}
	for file, inode := range files {
		if now, there := channels(ts)[file]; (!there || now != inode) && !strings.HasSuffix(file, "-"+channel) {
			ts.Fatalf("fix %q replaced or removed %s", ran, file)
		}
	}
	return strings.Join(ran, ", ")
}

// onHost runs achbridge on host krang or planner.
func onHost(ts *testscript.TestScript, host string, args ...string) Result {
	dir := map[string]string{"krang": "ROBOT", "planner": "PC"}[host]
	if dir == "" {
		ts.Fatalf("no host %q", host)
	}
	if args[0] != "channel" {
		args = append(args, "--control", host+".sock")
	}
	env := slices.DeleteFunc(environ(ts), func(v string) bool { return strings.HasPrefix(v, "ACHBRIDGE_SHM=") })
	r, err := RunCommandLine(CommandLine{Args: args, Env: append(env, "ACHBRIDGE_SHM="+ts.Getenv(dir)), Dir: ts.MkAbs(".")})
	ts.Check(err)
	return r
}

// witness returns the state of krang.witness, the mirror that no fix may change.
func witness(ts *testscript.TestScript) string {
	var s api.StatusReply
	ts.Check(json.Unmarshal([]byte(onHost(ts, "planner", "status", "--json").Stdout), &s))
	for _, m := range s.Mirrors {
		if m.Name == "krang.witness" {
			return m.State.String() + " replaced " + strconv.FormatUint(m.Replaced, 10)
		}
	}
	return ""
}

// channels returns the inodes of both hosts' channel files by path.
func channels(ts *testscript.TestScript) map[string]uint64 {
	list := map[string]uint64{}
	for _, dir := range []string{"ROBOT", "PC"} {
		files, err := filepath.Glob(filepath.Join(ts.Getenv(dir), "achshm-*"))
		ts.Check(err)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				list[file] = info.Sys().(*syscall.Stat_t).Ino
			}
		}
	}
	return list
}
