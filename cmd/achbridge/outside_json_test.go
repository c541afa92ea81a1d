package main_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// This file pins the JSON of every command, the metrics, the feed of the web page, and the
// files of a node. They come from two daemons on this computer that are linked over
// loopback: krang, the robot, and planner, the PC.

// schema collects the JSON types and words that were seen so far.
type schema struct {
	t     *testing.T
	types map[string]map[string]bool // path to JSON types
	texts map[string]map[string]bool // path of a state, cause or kind to its values
}

// wordy lists the keys whose values are words that programs compare.
var wordy = map[string]bool{"state": true, "cause": true, "origin_cause": true, "reader_cause": true, "kind": true}

// of records the types and the enumerated strings of a JSON value at path.
func (l *schema) of(path string, v any) {
	kind := "null"
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for key, value := range v {
			at := path + "." + key
			if strings.HasSuffix(path, ".drops") || path == "feed ages" { // maps, not objects with keys of their own
				at = path + ".*"
			}
			l.of(at, value)
			if text, ok := value.(string); ok && wordy[key] && !strings.HasPrefix(path, "feed ages") {
				note(l.texts, at, text)
			}
		}
	case []any:
		kind = "array"
		for _, value := range v {
			l.of(path+"[]", value)
		}
	case string:
		kind = "string"
	case float64:
		kind = "number"
	case bool:
		kind = "boolean"
	}
	note(l.types, path, kind)
}

func note(in map[string]map[string]bool, path, what string) {
	if in[path] == nil {
		in[path] = map[string]bool{}
	}
	in[path][what] = true
}

// at runs a command with --json in dir and records its output, with the command's name as the path.
func (l *schema) at(dir, command string, args ...string) string {
	l.t.Helper()
	out, _ := run(l.t, dir, append(append(strings.Fields(command), args...), "--json")...)
	dec := json.NewDecoder(strings.NewReader(out))
	for n := 0; ; n++ {
		var v any
		err := dec.Decode(&v)
		if n > 0 && errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			l.t.Fatalf("%s %q --json: %v in %q", command, args, err, out)
		}
		l.of(command, v)
	}
}

// until repeats a command until its output has had the word at the path.
func (l *schema) until(path, word, dir, command string, args ...string) {
	l.t.Helper()
	await.NoError(l.t, func() error {
		if out := l.at(dir, command, args...); !l.texts[path][word] {
			return fmt.Errorf("%s: want %q, got\n%s", path, word, out)
		}
		return nil
	})
}

// seen repeats a command until its output has had a value other than null at each path.
func (l *schema) seen(dir, command string, paths ...string) {
	l.t.Helper()
	missing := func(path string) bool {
		types := l.types[path]
		return len(types) == 0 || len(types) == 1 && types["null"]
	}
	await.NoError(l.t, func() error {
		if out := l.at(dir, command); slices.ContainsFunc(paths, missing) {
			return fmt.Errorf("%s: not all of %q in\n%s", command, paths, out)
		}
		return nil
	})
}

// stays starts a process of achbridge that runs until the test ends.
func stays(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(dir, args...)
	log, err := os.Create(filepath.Join(dir, fmt.Sprintf("log%d", time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("output of %q:\n%s", args, text)
		}
	})
	return cmd
}

func TestGoldenJSON(t *testing.T) {
	need.Processes(t)
	t.Parallel()
	l := &schema{t: t, types: map[string]map[string]bool{}, texts: map[string]map[string]bool{}}
	robot, pc := memory(t), memory(t)
	keysOf(l, robot, pc)
	for _, name := range []string{"imu", "secret", "spoilt"} {
		succeeds(t, robot, "channel", "create", name, "--frames", "8", "--size", "64")
		succeeds(t, robot, "channel", "put", name, "first")
	}
	for _, name := range []string{"goal", "plan"} {
		succeeds(t, pc, "channel", "create", name, "--frames", "8", "--size", "64")
	}
	if err := os.WriteFile(filepath.Join(robot, "achshm-broken"), []byte("no channel"), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := stays(t, robot, "run", "--name", "krang", "--listen", "127.0.0.1:0", "--http", ":0", "--no-discovery",
		"--accept", "goal", "--export", "secret,hosts=nobody", "--export", "*")
	writer := stays(t, robot, "channel", "put", "imu", "hello", "--rate", "50")
	await.True(t, "the robot's daemon", func() bool { _, code := run(t, robot, "status"); return code == 0 })
	var is struct{ Listen, HTTP string }
	if err := json.Unmarshal([]byte(l.at(robot, "status")), &is); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(is.Listen)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pc, "achbridge.yaml"), "name: planner\nlisten: 127.0.0.1:0\ndiscovery: off\nhttp: ':0'\nfoxglove: {listen: ':0'}\ninterfaces: [lo]\n"+
		"peers: ['127.0.0.1:"+port+"', '127.0.0.1:1', 'localhost:2']\n"+
		"mirror:\n  - {match: krang/imu, deadline: 150ms, meta: true, max_rate: 40, class: command, on_stale: 'put:"+pc+"/stop'}\n"+
		"  - krang/legs\n  - krang/secret\n  - {match: krang/spoilt, deadline: 1h}\n"+
		"push: [goal krang, plan krang/plans, goal nobody]\n"+
		"record: {keep: 5s, after: 0s, on: [deadline_missed], when: [{channel: krang.imu, field: x, above: 1}]}\n")
	write(t, filepath.Join(pc, "stop"), "stop")
	stays(t, pc, "run")
	await.True(t, "the PC's daemon", func() bool { _, code := run(t, pc, "status"); return code == 0 })
	l.until("status.mirrors[].state", "live", pc, "status")
	l.until("status.mirrors[].state", "waiting", pc, "status")
	l.until("status.mirrors[].state", "refused", pc, "status")
	l.until("status.pushes[].state", "accepted", pc, "status")
	l.until("status.pushes[].state", "refused", pc, "status")
	l.until("status.pushes[].state", "waiting", pc, "status")
	l.until("status.peers[].state", "linked", pc, "status")
	l.until("status.peers[].state", "dialling", pc, "status")
	l.seen(pc, "status", "status.peers[].error", "status.mirrors[].age.window", "status.links[].from_peer", "status.processor_wait",
		"status.mirrors[].age_ms", "status.mirrors[].due_ms", "status.mirrors[].period_ms", "status.mirrors[].transit_ms")
	l.seen(robot, "status", "status.exports[].age_ms", "status.exports[].due_ms", "status.exports[].period_ms", "status.exports[].transit_ms")

	t.Log("commands without problems")
	recordingOf(l, pc)
	commandsOf(l, robot, pc)
	metricsOf(t, robot, pc)
	feedOf(l, pc)

	t.Log("commands with problems")
	if err := daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.until("status.links[].state", "silent", pc, "status")
	if err := daemon.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	foreign := stays(t, pc, "channel", "put", "krang.imu", "foreign", "--force", "--rate", "20")
	l.until("status.mirrors[].state", "contested", pc, "status")
	l.until("events.kind", "foreign_writer", pc, "events")
	_ = foreign.Process.Signal(syscall.SIGINT)
	_ = writer.Process.Signal(syscall.SIGINT)
	l.until("status.mirrors[].state", "stale", pc, "status")
	l.seen(pc, "status", "status.mirrors[].safe_puts", "status.mirrors[].stale_s", "status.recorder.last.from")
	write(t, filepath.Join(robot, "spoilt"), "no channel any more")
	if err := os.Rename(filepath.Join(robot, "spoilt"), filepath.Join(robot, "achshm-spoilt")); err != nil {
		t.Fatal(err)
	}
	l.until("status.channels[].cause", "corrupt", robot, "status")
	l.at(pc, "why", "krang/imu", "--window", "200ms")

	pinned(t, "files.golden", filesOf(t, map[string]string{"krang": robot, "planner": pc}))
	pinnedTypes(t, "json.golden", l.types)
	pinnedWords(t, l.texts)
}

// keysOf makes a certificate for each host, a revocation list, and a key file with two network
// keys.
func keysOf(l *schema, robot, pc string) {
	l.t.Helper()
	succeeds(l.t, robot, "ca", "init", "--dir", "ca")
	for _, host := range []string{"krang", "planner", "thief"} {
		succeeds(l.t, robot, "ca", "issue", host, "--dir", "ca")
	}
	succeeds(l.t, robot, "ca", "revoke", "thief", "--dir", "ca")
	for to, from := range map[string]string{robot: "krang.key", pc: "planner.key"} {
		if err := os.Rename(filepath.Join(robot, from), filepath.Join(to, "key")); err != nil {
			l.t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(robot, "ca", "revoked"))
		if err != nil {
			l.t.Fatal(err)
		}
		write(l.t, filepath.Join(to, "key.revoked"), string(text))
	}
	succeeds(l.t, robot, "key", "new", "--key", "one.key")
	succeeds(l.t, robot, "key", "new", "--key", "two.key")
	succeeds(l.t, robot, "key", "add", "--key", "two.key")
	l.at(robot, "key show", "--key", "two.key", "--secret")
	l.at(robot, "key show", "--key", "key")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGoldenFilesOfNetworkKey pins the files of a node with a network key.
func TestGoldenFilesOfNetworkKey(t *testing.T) {
	t.Parallel()
	dir := memory(t)
	succeeds(t, dir, "key", "new")
	stays(t, dir, "run", "--listen", "127.0.0.1:0", "--no-discovery")
	await.True(t, "the daemon", func() bool { _, code := run(t, dir, "status"); return code == 0 })
	pinned(t, "files_network_key.golden", filesOf(t, map[string]string{"krang": dir}))
}

// TestGoldenIdentity pins the identity of a host, which follows only from its files and name:
// the network id from the key, the node id from the file node and the host's name.
func TestGoldenIdentity(t *testing.T) {
	t.Parallel()
	dir := memory(t)
	for name, text := range map[string]string{"key": "achkey1-" + strings.Repeat("A", 43) + "\n", "node": strings.Repeat("0f", 16) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stays(t, dir, "run", "--name", "krang", "--listen", "127.0.0.1:0", "--no-discovery")
	await.True(t, "the daemon", func() bool { _, code := run(t, dir, "status"); return code == 0 })
	var is struct{ Network, Node string }
	if err := json.Unmarshal([]byte(succeeds(t, dir, "status", "--json")), &is); err != nil {
		t.Fatal(err)
	}
	pinned(t, "identity.golden", []string{"network " + is.Network, "node " + is.Node})
}

// TestGoldenRecordingPlays plays a recording of an earlier version.
func TestGoldenRecordingPlays(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(filepath.Join(outside, "run.mcap"))
	if err != nil {
		t.Fatal(err)
	}
	dir := memory(t)
	if _, err := os.Stat(file); err != nil && *rewrite { // keep an existing file, which an earlier version recorded
		record(t, dir, file)
	}
	var is struct {
		Host     string
		Complete bool
		Frames   int
		Channels []map[string]any
	}
	if err := json.Unmarshal([]byte(succeeds(t, dir, "info", file, "--json")), &is); err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprintf("host %q, complete %v, frames %d", is.Host, is.Complete, is.Frames)}
	for _, c := range is.Channels {
		delete(c, "rate_hz")
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	succeeds(t, dir, "play", file, "--remap", "imu=again", "--speed", "100")
	lines = append(lines, "played: "+strings.TrimSpace(succeeds(t, dir, "channel", "cat", "again", "--last")))
	pinned(t, "recording.golden", lines)
}

func record(t *testing.T, dir, file string) {
	t.Helper()
	succeeds(t, dir, "channel", "create", "imu", "--frames", "8", "--size", "64")
	rec := stays(t, dir, "record", "imu", "-o", file)
	await.True(t, "the recording", func() bool { _, code := run(t, dir, "info", file); return code == 0 })
	succeeds(t, dir, "channel", "put", "imu", "hello", "--rate", "50", "--count", "3")
	await.True(t, "three frames", func() bool {
		out, _ := run(t, dir, "info", file, "--json")
		return strings.Contains(out, `"frames": 3`)
	})
	_ = rec.Process.Signal(syscall.SIGINT)
	await.True(t, "its end", func() bool {
		out, _ := run(t, dir, "info", file, "--json")
		return strings.Contains(out, `"complete": true`)
	})
}

// recordingOf records the mirror for a short time and records the JSON of info on the file.
func recordingOf(l *schema, pc string) {
	l.t.Helper()
	rec := stays(l.t, pc, "record", "krang.imu", "-o", "run.mcap")
	await.True(l.t, "a recording with drops", func() bool {
		out, _ := run(l.t, pc, "info", "run.mcap", "--json")
		return regexp.MustCompile(`"frames": \d\d`).MatchString(out) && strings.Contains(out, `"drops"`)
	})
	_ = rec.Process.Signal(syscall.SIGINT)
	await.True(l.t, "the end of the recording", func() bool {
		out, _ := run(l.t, pc, "info", "run.mcap", "--json")
		return strings.Contains(out, `"complete": true`)
	})
	l.at(pc, "info", "run.mcap")
}

// commandsOf records the output of the other commands.
func commandsOf(l *schema, robot, pc string) {
	l.t.Helper()
	l.at(pc, "ls")
	l.at(pc, "why", "krang/imu", "--window", "200ms")
	l.at(pc, "why", "krang/legs", "--window", "200ms")
	l.at(pc, "age", "krang/imu", "--window", "200ms")
	l.at(pc, "events")
	l.at(robot, "events")
	l.at(pc, "explain", "krang/imu")
	l.at(pc, "explain", "goal")
	l.at(robot, "explain", "secret")
	write(l.t, filepath.Join(robot, "other.yaml"), "export: [imu, '*', {deny: 'x*'}, imu]\n")
	l.at(robot, "check", "other.yaml")
	l.at(pc, "check", "achbridge.yaml", "--link-rate", "1kbit")
	write(l.t, filepath.Join(robot, "other.yaml"), "name: krang\nexport: [{match: imu, budget: soon}]\n")
	l.at(robot, "check", "other.yaml")
	l.at(robot, "check", "other.yaml", "--link-rate", "20Mbit")
	l.at(robot, "doctor", "--config", "other.yaml")
	l.at(pc, "reload")
	text, err := os.ReadFile(filepath.Join(pc, "achbridge.yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	write(l.t, filepath.Join(pc, "achbridge.yaml"), strings.Replace(string(text), "interfaces: [lo]", "log: debug", 1))
	l.at(pc, "reload")
	for _, command := range []string{"hz", "bw", "channel hz"} {
		l.at(pc, command, "krang.imu", "--window", "200ms", "--count", "1")
	}
	for _, name := range []string{"krang.imu", "krang.imu.meta", "goal"} {
		l.at(pc, "channel info", name)
	}
	l.at(pc, "channel ls")
	l.at(robot, "channel ls")
	l.at(pc, "version")
	l.at(pc, "doctor")
	l.at(pc, "demo", "--for", "300ms")
	l.at(pc, "snapshot", "last.mcap")
	l.at(pc, "status", "--check")
}

// httpOf returns the URL of a daemon's page.
func httpOf(t *testing.T, dir string) string {
	t.Helper()
	var s struct{ HTTP string }
	if err := json.Unmarshal([]byte(succeeds(t, dir, "status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return "http://" + s.HTTP
}

// series matches a sample on the metrics page. Its groups are the name and the labels.
var series = regexp.MustCompile(`(?m)^(achbridge_\w+?)(?:\{(.*)\})? \S+$`)

// typeLine matches the TYPE line of a metric.
var typeLine = regexp.MustCompile(`(?m)^# TYPE (\S+) (\w+)$`)

// metricsOf pins the name, type and labels of each metric, and the values of labels that take
// fixed words.
func metricsOf(t *testing.T, dirs ...string) {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range dirs {
		resp, err := http.Get(httpOf(t, dir) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		metricLines(string(page), found)
	}
	for line := range found {
		if strings.Contains(line, "achbridge_link_rate_") {
			delete(found, line) // exported only once a link has been saturated
		}
	}
	pinned(t, "metrics.golden", slices.Sorted(maps.Keys(found)))
}

// metricLines adds the type, name and labels of each metric of a page to found.
func metricLines(page string, found map[string]bool) {
	for _, m := range typeLine.FindAllStringSubmatch(page, -1) {
		found["type "+m[1]+" "+m[2]] = true
	}
	for _, m := range series.FindAllStringSubmatch(page, -1) {
		var labels []string
		for _, label := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			switch label[1] {
			case "direction", "reason", "kind", "le", "transport":
				labels = append(labels, label[0])
			default:
				labels = append(labels, label[1])
			}
		}
		found["series "+m[1]+" "+strings.Join(labels, " ")] = true
	}
}

// feedOf records the first events of each kind in the feed of the web page.
func feedOf(l *schema, dir string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(await.Context(l.t), http.MethodGet, httpOf(l.t, dir)+"/events", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	listed := map[string]bool{}
	for event := ""; len(listed) < 3 && lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), ": ")
		switch what {
		case "event":
			event = rest
		case "data":
			var v any
			if err := json.Unmarshal([]byte(rest), &v); err != nil {
				l.t.Fatal(err)
			}
			if event != "status" { // the output of status --json has the keys of a status
				l.of("feed "+event, v)
			} else if _, ok := v.(map[string]any)["mirrors"]; !ok {
				l.t.Errorf("feed: no status in %s", rest)
			}
			listed[event] = true
		}
	}
	if len(listed) != 3 {
		l.t.Errorf("feed: got %v, want ages, events and status", slices.Sorted(maps.Keys(listed)))
	}
}

// These patterns match text that differs between runs.
var (
	keyText     = regexp.MustCompile(`achkey1-([A-Za-z0-9_-]+)`)
	pemBody     = regexp.MustCompile(`(?m)(^[A-Za-z0-9+/=]+\n)+-----END`)
	hexText     = regexp.MustCompile(`\b[0-9a-f]{20,32}\b`)
	viewerToken = regexp.MustCompile(`^[A-Z2-7]{26}\n$`)                // for viewers
	ofHost      = regexp.MustCompile(`(?m)^hardware( [0-9a-f]{16})+\n`) // a line of the file node, missing if no hardware can be read
	dayText     = regexp.MustCompile(`20\d\d-\d\d-\d\d\S*`)
)

// filesOf returns a line for each file of the hosts: its mode, and its text with random parts replaced.
func filesOf(t *testing.T, dirs map[string]string) (lines []string) {
	t.Helper()
	for host, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(dir, path)
			if name == "." || strings.HasPrefix(name, "log") || filepath.Ext(name) == ".yaml" {
				return nil
			}
			name = snapshotTime.ReplaceAllString(name, "DATETTIMEZ.mcap")
			line := fmt.Sprintf("%s %s %v", host, name, info.Mode())
			switch {
			case strings.HasPrefix(name, "achshm-"):
				line += fmt.Sprintf(" %d bytes", info.Size())
			case info.Mode().IsRegular() && filepath.Ext(name) != ".mcap":
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += " " + shape(text)
			}
			lines = append(lines, line)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	return lines
}

// snapshotTime matches the name of a snapshot of a trigger.
var snapshotTime = regexp.MustCompile(`[0-9]{8}T[0-9]{6}Z\.mcap$`)

// shape returns the text of a file with random parts replaced, or only the size of a binary file.
func shape(text []byte) string {
	if slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7f || b < ' ' && b != '\n' }) {
		return fmt.Sprintf("%d bytes", len(text))
	}
	s := pemBody.ReplaceAllString(string(text), "BASE64\n-----END")
	s = hexText.ReplaceAllString(ofHost.ReplaceAllString(s, ""), "HEX")
	s = keyText.ReplaceAllStringFunc(s, func(key string) string { return fmt.Sprintf("achkey1-RANDOM(%d)", len(key)-len("achkey1-")) })
	s = viewerToken.ReplaceAllString(s, "TOKEN\n")
	return fmt.Sprintf("%q", dayText.ReplaceAllString(s, "DAY"))
}

// pinnedTypes compares JSON paths and their types with a golden file, which lists all possible
// ones. A line that ends in " at times" is a path that takes long, or chance, to appear: it
// is enough that the sources have its key. Every other path must appear, and not only as null.
func pinnedTypes(t *testing.T, file string, types map[string]map[string]bool) {
	t.Helper()
	path := filepath.Join(outside, file)
	want, rare := map[string][]string{}, map[string]bool{}
	if text, err := os.ReadFile(path); err == nil || !*rewrite {
		for line := range strings.Lines(string(text)) {
			at, is, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			is, rare[at] = strings.CutSuffix(is, " at times")
			want[at] = strings.Split(is, "|")
		}
	}
	if *rewrite {
		var lines []string
		for at := range want {
			if len(types[at]) == 0 && !rare[at] {
				delete(want, at)
			}
		}
		for at, is := range types {
			want[at] = slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(is)), want[at]...))))
		}
		for at, is := range want {
			line := at + ": " + strings.Join(is, "|")
			if rare[at] {
				line += " at times"
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		writeLines(t, path, lines)
	}
	text := sources(t)
	for at, is := range want {
		key := at[strings.LastIndex(at, ".")+1:]
		key = strings.TrimRight(key, "[]")
		switch got := types[at]; {
		case rare[at] && !strings.Contains(text, `"`+key+`"`) && !strings.Contains(text, `"`+key+`,`):
			t.Errorf("%s: missing: %s: no source has the key", path, at)
		case rare[at]:
		case len(got) == 0:
			t.Errorf("%s: missing: %s: %s", path, at, is)
		case len(got) == 1 && got["null"] && len(is) > 1:
			t.Errorf("%s: only null: %s: %s", path, at, is)
		}
	}
	for at, is := range types {
		for kind := range is {
			if !slices.Contains(want[at], kind) {
				t.Errorf("%s: new: %s: %s", path, at, kind)
			}
		}
	}
}

// pinnedWords checks that every state, cause and kind is listed in words.
func pinnedWords(t *testing.T, texts map[string]map[string]bool) {
	t.Helper()
	for path, found := range texts {
		what := map[string]string{"status.mirrors[].state": "state of a mirror", "status.links[].state": "state of a link",
			"status.pushes[].state": "state of a push", "status.peers[].state": "state of a peer",
			"doctor.checks[].state": "state of a check", "events.kind": "event", "feed events[].kind": "event"}[path]
		if what == "" && strings.HasSuffix(path, "cause") {
			what = "cause"
		}
		if what == "" {
			t.Errorf("%s: words lists no values for it", path)
		}
		for word := range found {
			if !slices.Contains(strings.Fields(words[what]), word) {
				t.Errorf("%s: new value %q, which words does not list as %s", path, word, what)
			}
		}
	}
}
