package docs_test

import (
	"bytes"
	"errors"
	"fmt"
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
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// buildTools builds achbridge and lab, for all documents.
func buildTools(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "achbridge-docs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := hosts.Build(dir, "achbridge/cmd/achbridge", "achbridge/testnet/lab"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the user of the hosts runs the tools
		t.Fatal(err)
	}
	return dir
}

// The commands on hosts run without root, as the documents are for all users.
const (
	uid        = 1000
	runtimeDir = "/run/user/1000"
)

// channels are the robot's channels in all documents but README.md, as arguments of achbridge publish.
const channels = "imu:50:64 joints:10:3000 camera:1:300000"

// story is a document's run.
type story struct {
	*testing.T
	lab     *hosts.Lab // nil means that the document needs no hosts
	dir     string     // directory with the hosts' homes and the files made on this machine
	tools   string
	daemons map[string]*hosts.Cmd
	labRun  string // the lab that is being prepared,
	typed   []step // the commands at its prompt
	labAt   step
	over    bool // a server that the machine lacks was to start: the rest needs it
}

func run(t *testing.T, name, tools string, steps []step) {
	s := &story{T: t, tools: tools, daemons: map[string]*hosts.Cmd{}}
	var err error
	if s.dir, err = os.MkdirTemp("", "achbridge-docs-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	s.check(os.Chmod(s.dir, 0o755))
	s.begin(name, steps)
	for _, step := range steps {
		s.do(step)
	}
	s.endLab()
}

func (s *story) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// hostsOf returns the hosts that the prompts of a document name.
func hostsOf(steps []step) (names []string) {
	for _, p := range steps {
		if p.host != "" && p.host != "lab" && !slices.Contains(names, p.host) {
			names = append(names, p.host)
		}
	}
	return names
}

// begin makes the hosts of a document, and sets up what the document assumes.
func (s *story) begin(name string, steps []step) {
	names := hostsOf(steps)
	if len(names) == 0 {
		return
	}
	for _, always := range []string{"robot", "pc"} {
		if !slices.Contains(names, always) {
			names = append(names, always)
		}
	}
	s.lab = hosts.StartTest(s.T, hosts.Config{Hosts: names, Link: "delay=2ms,rate=100mbit"})
	for _, h := range names {
		s.check(os.MkdirAll(filepath.Join(s.home(h), ".config"), 0o755))
		s.check(s.root(h, "mkdir -p "+runtimeDir+" && chown "+itoa(uid)+" "+runtimeDir+" && chmod 1777 /dev/shm").Run())
		s.own(h)
	}
	s.Cleanup(s.showLogs)
	s.check(os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS("../packaging/examples")))
	if name != everyday { // whose own line publishes
		s.background("robot", "exec achbridge publish "+channels)
		s.until("robot", "achbridge channel ls", "camera")
	}
	if name == farApart {
		s.setApart()
	}
	if slices.Contains(bare, name) {
		return
	}
	for _, p := range quickStart {
		s.do(p)
	}
}

// quickStart has the steps of README.md's quick start, with the host names of the other documents.
var quickStart = []step{
	{host: "robot", line: "achbridge key new"},
	{host: "robot", line: "ssh pc mkdir -p .config/achbridge"},
	{host: "robot", line: "scp .config/achbridge/key pc:.config/achbridge/key"},
	{host: "robot", line: "achbridge run &"},
	{host: "pc", line: "achbridge run --mirror 'robot/*' &"},
	{host: "pc", line: "achbridge status -v", output: []string{"robot.camera robot/camera live …", "robot.imu robot/imu live …", "robot.joints robot/joints live …"}},
}

func (s *story) home(host string) string { return filepath.Join(s.dir, host) }

// own makes the user of a host the owner of all files in its home.
func (s *story) own(host string) {
	s.Helper()
	s.check(s.root(host, "chown -R "+itoa(uid)+" "+s.home(host)).Run())
}

// root returns a command that runs a shell line as root on a host.
func (s *story) root(host, line string) *hosts.Cmd {
	return s.lab.Command(host, "sh", "-c", line)
}

// shell returns a command that runs a line as the user of a host.
func (s *story) shell(host, line string) *hosts.Cmd {
	id := itoa(uid)
	line = strings.ReplaceAll(line, "/usr/share/doc/achbridge/examples", filepath.Join(s.dir, "examples")) // no package is installed
	cmd := s.lab.Command(host, "setpriv", "--reuid="+id, "--regid="+id, "--clear-groups", "bash", "-c", "cd && "+line)
	cmd.Env = []string{"HOME=" + s.home(host), "PATH=" + s.tools + ":/usr/bin:/bin:/usr/sbin:/sbin", "XDG_RUNTIME_DIR=" + runtimeDir, "TERM=xterm", "NO_COLOR=1", "GORACE=" + os.Getenv("GORACE")}
	return cmd
}

// do does one step as a reader would.
func (s *story) do(p step) {
	s.Helper()
	if _, not := exception(p.line); not || s.over {
		return
	}
	if why, not := skipReason(p.line); not {
		s.over = serverLine.MatchString(p.line)
		s.Run(p.at, func(t *testing.T) { t.Skipf("%s: %s", p.line, why) })
		return
	}
	switch {
	case p.file != "":
		s.write(p)
	case p.host == "lab":
		s.typed = append(s.typed, p)
	case strings.HasPrefix(p.line, "lab run "):
		s.endLab()
		s.labRun, s.labAt = p.line, p
	case p.host == "":
		s.here(p)
	case copied.MatchString(p.line):
		m := copied.FindStringSubmatch(p.line)
		s.there(step{at: p.at, host: p.host, line: m[1]})
		s.scp(step{at: p.at, host: p.host, line: m[2]})
	case serverLine.MatchString(p.line):
		s.background(p.host, "exec "+strings.TrimSuffix(p.line, " &"))
	case strings.HasPrefix(p.line, "scp "):
		s.scp(p)
	case strings.HasPrefix(p.line, "ssh "):
		f := strings.Fields(p.line)
		s.there(step{at: p.at, host: f[1], line: strings.Join(f[2:], " "), output: p.output})
	case daemonLine.MatchString(p.line):
		s.daemon(p)
	default:
		s.there(p)
	}
}

var (
	daemonLine = regexp.MustCompile(`^achbridge run\b`)
	// serverLine matches a command that runs until the lab ends: a hub or a publisher.
	serverLine = regexp.MustCompile(`^(achbridge hub( 2>\S+)?|achbridge publish [^&]*|nats-server .*) &$`)
	// copied matches a line that makes a file and copies it.
	copied  = regexp.MustCompile(`^(.*) && (scp .*)$`)
	comment = regexp.MustCompile(`\s{2,}# .*$`)
	// endless matches a command that runs until Ctrl-C, except with an option that ended matches.
	endless = regexp.MustCompile(`^achbridge (top|rec record|rate|echo)\b|--follow|--watch|put .*--rate`)
	ended   = regexp.MustCompile(`--count|--once|--help|&$`)
	// reads matches a command without effects. It is repeated until its output is as shown.
	reads = regexp.MustCompile(`^achbridge (ls|status|top|plot|why|doctor|check|age|rate|echo|events|key show|hub (ls|check)|channel (ls|info|cat)|ch (ls|info|cat))\b|^grep `)
	// finds matches a command whose exit code is its result.
	finds = regexp.MustCompile(`^achbridge (why|doctor|check|age|status --check)\b`)
)

// write writes the file that a block of a document shows into the home of one host or of all hosts. For a lab it
// writes the file into the directory of the lab's shell.
func (s *story) write(p step) {
	if s.lab == nil {
		s.check(os.WriteFile(filepath.Join(s.dir, p.file), []byte(p.text), 0o644))
		return
	}
	for _, h := range s.lab.Hosts() {
		if p.host != "" && p.host != h {
			continue
		}
		path := filepath.Join(s.home(h), p.file)
		s.check(os.MkdirAll(filepath.Dir(path), 0o755))
		s.check(os.WriteFile(path, []byte(p.text), 0o644))
		s.own(h)
	}
}

// scp copies between the homes of the hosts: scp FILE HOST:FILE.
func (s *story) scp(p step) {
	s.Helper()
	f := strings.Fields(p.line)
	to, path, ok := strings.Cut(f[len(f)-1], ":")
	if !ok || len(f) != 3 || !slices.Contains(s.lab.Hosts(), to) {
		s.Fatal(clue(p, "want scp FILE HOST:FILE, with one of the hosts %v", s.lab.Hosts()))
	}
	from := filepath.Join(s.home(p.host), strings.TrimPrefix(f[1], "~/"))
	target := filepath.Join(s.home(to), strings.TrimPrefix(path, "~/"))
	if path == "" || strings.HasSuffix(path, "/") {
		target = filepath.Join(target, filepath.Base(from))
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(target, text, 0o600)
	}
	if err == nil {
		err = os.Chown(target, uid, uid)
	}
	if err != nil {
		s.Fatal(clue(p, "%v", err))
	}
}

// daemon starts the daemon of a host, after it has ended a running one, and waits until the
// new daemon answers.
func (s *story) daemon(p step) {
	s.Helper()
	if old := s.daemons[p.host]; old != nil {
		_ = old.Process.Signal(syscall.SIGTERM)
		_ = old.Wait()
	}
	line := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(comment.ReplaceAllString(p.line, "")), "&"))
	cmd := s.background(p.host, "exec "+line)
	s.daemons[p.host] = cmd
	s.until(p.host, "achbridge status", "channels:")
}

// background starts a line on a host. It runs until the lab ends.
func (s *story) background(host, line string) *hosts.Cmd {
	s.Helper()
	cmd := s.shell(host, line)
	var log bytes.Buffer
	cmd.Stderr = &log
	s.check(cmd.Start())
	s.Cleanup(func() {
		if s.Failed() && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			s.Logf("%s$ %s\n%s", host, line, tail(log.String()))
		}
	})
	return cmd
}

// showLogs prints the logs of the daemons after a failure.
func (s *story) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*", "*.log"))
	for _, path := range logs {
		if text, err := os.ReadFile(path); err == nil && s.Failed() {
			s.Logf("%s\n%s", s.atHome(path), tail(string(text)))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// until repeats a line on a host until it prints a text.
func (s *story) until(host, line, text string) {
	s.Helper()
	s.there(step{at: "before it", host: host, line: line, output: []string{"…" + text + "…"}})
}

// there runs a line on a host and compares its output. A line without effects is repeated until
// the output matches, since the hosts may not have linked yet.
func (s *story) there(p step) {
	s.Helper()
	line := comment.ReplaceAllString(p.line, "")
	for begin, scale := time.Now(), 1; ; scale *= 2 {
		waited := time.Since(begin)
		out, err := s.output(s.shell(p.host, interruptible(line, scale)))
		missing := missingIn(out, p.output)
		if _, failed := errors.AsType[*exec.ExitError](err); failed && finds.MatchString(p.line) {
			err = nil
		}
		switch {
		case err == nil && missing == "":
			return
		case reads.MatchString(p.line) && waited < await.Limit:
			time.Sleep(min(max(100*time.Millisecond, waited/8), time.Second))
			continue
		case err != nil:
			s.Fatal(clue(p, "on %s: %v:\n%s", p.host, err, out))
		default:
			s.Fatal(clue(p, "on %s nothing like %q, but\n%s", p.host, missing, out))
		}
	}
}

func (s *story) output(cmd *hosts.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return s.atHome(out.String()), err
}

// atHome returns output with the paths of the hosts' homes replaced by those in the documents.
func (s *story) atHome(out string) string {
	if s.lab == nil {
		return out
	}
	for _, h := range s.lab.Hosts() {
		out = strings.ReplaceAll(out, s.home(h), "/home/me")
	}
	return out
}

// interruptible returns a line that ends. A command that runs until Ctrl-C gets SIGINT after a while, scale times
// as long as usual; top and plot get a terminal and the key q. With --foreground, timeout sends the signal only once:
// a second Ctrl-C would end a program at once.
func interruptible(line string, scale int) string {
	top := regexp.MustCompile(`^(lab exec \w+ )?achbridge (top|plot)\b`)
	plain := regexp.MustCompile(`^lab exec \w+ `).ReplaceAllString(line, "")
	scale = min(scale, 8)
	switch {
	case top.MatchString(line):
		return fmt.Sprintf("(sleep %d; printf q) | script -qec %q /dev/null", 2*scale, line)
	case endless.MatchString(plain) && !ended.MatchString(plain):
		return fmt.Sprintf("timeout --foreground --signal INT --kill-after 60 %d bash -c %s || test $? = 124", 3*scale, quote("exec "+line))
	case strings.HasPrefix(line, "sleep "):
		return fmt.Sprintf("for n in {1..%d}; do %s; done", scale, line)
	}
	return line
}

// quote returns text as one argument for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// project is the name of the documents' project in docker-compose.
const project = "achbridge-docs"

// endContainers removes the containers that a failed document has left.
func (s *story) endContainers() {
	if s.Failed() {
		cmd := exec.Command("bash", "-c", "docker rm -f krang2; docker-compose down --rmi local")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+project)
		out, _ := cmd.CombinedOutput()
		s.Logf("%s", out)
	}
}

// here runs a line on this machine, in the repository.
func (s *story) here(p step) {
	s.Helper()
	if strings.HasPrefix(p.line, "bash testnet/image/build.sh") {
		s.Cleanup(s.endContainers)
	}
	cmd := exec.Command("bash", "-c", p.line)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "PATH="+s.tools+":"+os.Getenv("PATH"), "GOBIN="+s.dir, "COMPOSE_PROJECT_NAME="+project, "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if strings.Contains(p.line, "achbridge demo") && strings.Contains(string(out), "CHANNEL ") {
		err = nil // on a busy machine, demo misses frames and fails
	}
	if err != nil {
		s.Fatal(clue(p, "%v:\n%s", err, tail(string(out))))
	}
	if missing := missingIn(string(out), p.output); missing != "" {
		s.Fatal(clue(p, "nothing like %q, but\n%s", missing, out))
	}
}

// endLab runs a lab with the commands at its prompt as its script. On a busy machine a line may time out:
// endLab then runs the lab again in another directory.
func (s *story) endLab() {
	s.Helper()
	if s.labRun == "" {
		return
	}
	if err := hosts.Permitted(); err != nil {
		s.Skip(err)
	}
	for scale := 1; ; scale *= 2 {
		err := s.inLab(scale)
		if err == nil {
			break
		}
		if scale == 8 {
			s.Fatal(err)
		}
	}
	s.labRun, s.typed = "", nil
}

// inLab runs the lab once, in a new directory.
func (s *story) inLab(scale int) error {
	s.Helper()
	dir := filepath.Join(s.dir, "lab"+itoa(scale)+"-"+itoa(len(s.typed)))
	s.check(os.Mkdir(dir, 0o755))
	text := "cd " + dir + "\ncp ../*.yaml . || true\n"
	for _, p := range s.typed {
		text += interruptible(p.line, scale) + "\n"
	}
	if !need.IsLong() { // less often
		text = strings.NewReplacer(":200:64", ":4:64", ":500:64", ":20:64", ":10:100000", ":1:100000", ":1000:64", ":50:64", ":200:3000", ":10:3000").Replace(text)
	}
	script := filepath.Join(dir, "script.sh")
	s.check(os.WriteFile(script, []byte(text), 0o644))
	line := strings.TrimSuffix(s.labRun, "bash") + "bash -e " + script
	cmd := exec.Command("bash", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+s.tools+":"+os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New(clue(s.labAt, "%v:\n%s", err, tail(string(out))))
	}
	for _, p := range s.typed {
		if missing := missingIn(string(out), p.output); missing != "" {
			return errors.New(clue(p, "nothing like %q, but\n%s", missing, out))
		}
	}
	return nil
}
