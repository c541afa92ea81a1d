package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	worker "achbridge/cmd/achbridge" // its tests: RunCommandLine
)

// The files in testdata/outside pin the interfaces that programs, scripts and other versions
// rely on. These are JSON keys, flags, exit codes, metrics, the configuration's schema, and
// the bytes of files and of the wire. Sentences, times and counts are not pinned.
// The tests run the program's command line in workers and import none of its packages, so
// that they need no change when the packages change.
//
//	go test ./cmd/achbridge -run TestGolden -update-outside
//
// rewrites the files. A changed line in them is a change that users notice.

const outside = "testdata/outside"

var rewrite = flag.Bool("update-outside", false, "rewrite the golden files in testdata/outside; then review the changes")

// pinned compares lines with a golden file, in any order.
func pinned(t *testing.T, file string, lines []string) {
	t.Helper()
	path := filepath.Join(outside, file)
	if *rewrite {
		writeLines(t, path, lines)
	}
	want := linesOf(t, path)
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("%s: missing: %s", path, line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("%s: new: %s", path, line)
		}
	}
}

func writeLines(t *testing.T, path string, lines []string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// run runs a command line in a worker, in dir and without this host's settings.
func run(t *testing.T, dir string, args ...string) (out string, code int) {
	t.Helper()
	r, err := worker.RunCommandLine(worker.CommandLine{Args: args, Env: environment(dir), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return r.Stdout, r.Code
}

// program returns a command that runs achbridge as a process, in dir and without this host's settings.
func program(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `umask 022 && exec "$0" "$@"`, "achbridge"}, args...)...)
	cmd.Dir, cmd.Env = dir, environment(dir)
	return cmd
}

func environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir,
		"XDG_STATE_HOME=" + dir, "RUNTIME_DIRECTORY=" + dir, "CONFIGURATION_DIRECTORY=" + dir, "STATE_DIRECTORY=" + dir,
		"ACHBRIDGE_SHM=" + dir, "NO_COLOR=1", "GORACE=" + os.Getenv("GORACE")}
}

// succeeds runs a command line, fails the test if its exit code is not 0, and returns its output.
func succeeds(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, code := run(t, dir, args...)
	if code != 0 {
		t.Fatalf("achbridge %q: exit code %d", args, code)
	}
	return out
}

// memory returns a new directory for channels in shared memory.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// helpLine matches a flag in a help text. Its groups are shorthand, name and type.
var helpLine = regexp.MustCompile(`^ +(?:(-\w), |    )--([\w-]+)(?: ("[^"]*"|\S+))?  `)

// manLine matches a flag in a manual page, with its default, as in "--output FILE", and the line of text after it.
var manLine = regexp.MustCompile(`\\fB--([\w-]+)\\fP[^\n]*\n[^\n]*\(default:? ([^)]*)\)`)

func TestGoldenFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	succeeds(t, dir, "man", dir, "--date", "2026-01-31")
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("got %d manual pages, %v", len(pages), err)
	}
	var lines []string
	letters := map[string]string{} // letter to flag: the same in all commands
	for _, page := range append(pages, filepath.Join(dir, "achbridge-man.1")) {
		command := strings.Split(strings.TrimSuffix(filepath.Base(page), ".1"), "-")[1:]
		name := strings.Join(append([]string{"achbridge"}, command...), " ")
		lines = append(lines, name)
		defaults := map[string]string{}
		if text, err := os.ReadFile(page); err == nil {
			for _, m := range manLine.FindAllStringSubmatch(string(text), -1) {
				defaults[m[1]] = m[2]
			}
		}
		for line := range strings.Lines(succeeds(t, dir, append(command, "--help")...)) {
			if m := helpLine.FindStringSubmatch(line); m != nil && m[2] != "help" {
				flag := strings.TrimSuffix(m[2], "put") // --out and --output both name the file to write
				isRootVersion := m[2] == "version"      // -v before any command prints the version, as is the custom
				if !isRootVersion {
					letters[m[1]] = cmp.Or(letters[m[1]], flag)
				}
				if m[1] != "" && !isRootVersion && letters[m[1]] != flag {
					t.Errorf("%s: %s is --%s, want --%s as elsewhere", name, m[1], m[2], letters[m[1]])
				}
				lines = append(lines, fmt.Sprintf("%s --%s short=%s type=%s default=%s", name, m[2], m[1], m[3], defaults[m[2]]))
			}
		}
	}
	slices.Sort(lines)
	pinned(t, "flags.golden", lines)
}

// TestGoldenExitCodes runs the command lines of the golden file. Each follows its expected exit code.
func TestGoldenExitCodes(t *testing.T) {
	t.Parallel()
	dir := memory(t)
	succeeds(t, dir, "key", "new", "--key", "key")
	succeeds(t, dir, "channel", "create", "imu", "--frames", "8", "--size", "64")
	for name, text := range map[string]string{"bad.yaml": "mirrors: []\n", "text": "no recording\n", "readable": "achkey1-abc\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for _, line := range linesOf(t, filepath.Join(outside, "exits.golden")) {
		_, args, ok := strings.Cut(line, " achbridge")
		if !ok {
			t.Fatalf("exits.golden: %q: want CODE achbridge ARG...", line)
		}
		_, code := run(t, dir, strings.Fields(args)...)
		lines = append(lines, strconv.Itoa(code)+" achbridge"+args)
	}
	if len(lines) < 30 {
		t.Errorf("got %d command lines, want at least 30", len(lines))
	}
	pinned(t, "exits.golden", lines)
}

// TestGoldenSchema pins the keys of the configuration and checks that the check command knows them all.
func TestGoldenSchema(t *testing.T) {
	t.Parallel()
	var schema any
	text, err := os.ReadFile(inRepository(t, "achbridge.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	lines := schemaLines("", schema.(map[string]any))
	slices.Sort(lines)
	pinned(t, "schema.golden", slices.Compact(lines))

	top := regexp.MustCompile(`^(\w+): `)
	var config strings.Builder
	for _, line := range lines {
		if m := top.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&config, "%s: {no: value}\n", m[1])
		}
	}
	config.WriteString("nobody_knows_this: {no: value}\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, code := run(t, dir, "check", "all.yaml", "--json")
	if code != 2 {
		t.Fatalf("check of a file with only errors: exit code %d, want 2", code)
	}
	var listed struct {
		Problems []struct{ Path, Problem string }
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		t.Fatal(err)
	}
	var unknown []string
	for _, p := range listed.Problems {
		if strings.Contains(p.Problem, "unknown key") && !strings.HasSuffix(p.Path, ".no") {
			unknown = append(unknown, p.Path)
		}
	}
	if !slices.Equal(unknown, []string{"nobody_knows_this"}) {
		t.Errorf("check does not know %q, want only nobody_knows_this", unknown)
	}
}

// schemaLines returns a line for each key below part of a JSON schema, with its permitted values.
func schemaLines(path string, part map[string]any) (lines []string) {
	var is []string
	for _, key := range []string{"type", "enum", "minimum", "maximum", "minItems", "additionalProperties"} {
		if v, ok := part[key]; ok {
			text, _ := json.Marshal(v)
			is = append(is, key+" "+string(text))
		}
	}
	for _, one := range listOf(part["oneOf"]) {
		text, _ := json.Marshal(one["required"])
		is = append(is, "or required "+string(text))
	}
	if path != "" && len(is) > 0 {
		lines = append(lines, path+": "+strings.Join(is, ", "))
	}
	if keys, ok := part["properties"].(map[string]any); ok {
		for name, of := range keys {
			lines = append(lines, schemaLines(strings.TrimPrefix(path+"."+name, "."), of.(map[string]any))...)
		}
	}
	if items, ok := part["items"].(map[string]any); ok {
		lines = append(lines, schemaLines(path+"[]", items)...)
	}
	for _, any := range listOf(part["anyOf"]) {
		lines = append(lines, schemaLines(path, any)...)
	}
	return lines
}

func listOf(v any) (list []map[string]any) {
	parts, _ := v.([]any)
	for _, part := range parts {
		list = append(list, part.(map[string]any))
	}
	return list
}

// inRepository returns the path of the only file of that name in the repository.
func inRepository(t *testing.T, name string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %q, %v, want one", name, found, err)
	}
	return found[0]
}

// TestGoldenWire pins the bytes of each message and datagram. The tests of package wire check
// that it encodes and decodes these bytes, and that every message has an example.
func TestGoldenWire(t *testing.T) {
	t.Parallel()
	var lines []string
	name, bytesOf := "", map[string]string{}
	scan := bufio.NewScanner(bytes.NewReader([]byte(strings.Join(linesOf(t, "../../wire/testdata/vectors.txt"), "\n"))))
	for scan.Scan() {
		what, rest, _ := strings.Cut(scan.Text(), " ")
		switch what {
		case "name":
			name = rest
		case "hex":
			text, _, _ := strings.Cut(rest, "#")
			bytesOf[name] += strings.Join(strings.Fields(text), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bytesOf)) {
		lines = append(lines, name+" = "+bytesOf[name])
	}
	pinned(t, "wire.golden", lines)
}

// words lists the values of JSON keys, and a metric, that the golden files need not contain, since
// some appear late or by chance. Each must be a string literal in the sources.
var words = map[string]string{
	"state of a mirror":   "waiting live stale contested refused",
	"health of a mirror":  "live late waiting stale refused",
	"state of a link":     "up silent",
	"state of a push":     "waiting accepted refused",
	"state of a peer":     "linked dialling known missed",
	"state of a check":    "ok warning failure",
	"link in a companion": "down up silent refused",
	"metric":              "link_rate_bytes_per_second",
	"cause": "well publisher_stopped publisher_slow no_channel rule export_rule accept_rule file_mode key revoked certificate " +
		"peer_missing peer_silent multicast_blocked link_rate loss budget clock shm_full host_busy receiver_slow corrupt " +
		"frame_size bad_frame type_misfit limit loop foreign_writer other",
	"event": "link_up link_down link_silent link_heard peer_unreachable mirror_stale deadline_missed mirror_fresh mirror_replaced " +
		"foreign_writer foreign_gone channel_unusable refused loop clock_step host_changed certificate_ends snapshot snapshot_failed",
}

func TestJSONValuesAreInSources(t *testing.T) {
	t.Parallel()
	text := sources(t)
	for what, list := range words {
		for _, word := range strings.Fields(list) {
			if !strings.Contains(text, `"`+word+`"`) {
				t.Errorf("%s: no source contains %q", what, word)
			}
		}
	}
}

// sources returns the text of all Go files except tests, concatenated.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
