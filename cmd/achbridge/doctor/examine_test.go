package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/trust"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

// expect checks the state of r, and that its text or fix contains tells. A result that is not fit must have a fix.
func expect(t *testing.T, r result, state fitness, contains string) {
	t.Helper()
	if r.State != state || !strings.Contains(r.Text+"\n"+r.Fix, contains) {
		t.Errorf("got %+v, want %s with %q", r, state, contains)
	}
	if r.State != fit && r.Fix == "" {
		t.Errorf("%s: %s: got no fix, want one", r.State, r.Text)
	}
}

// newPatient returns a patient whose channels are in a directory of the test.
func newPatient(t *testing.T) *patient {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env := map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "XDG_STATE_HOME": t.TempDir()}
	h := Host{Host: view.Host{Places: config.Places{Env: func(name string) string { return env[name] }, UID: 1}, Dir: localach.Dir(dir)}, TryPorts: func(string, via.Kind) (string, error) { return "", nil }}
	return &patient{Host: h, config: &config.Config{Settings: config.Defaults()}}
}

func TestDoctorFindsBadChannels(t *testing.T) {
	p := newPatient(t)
	good, err := p.Dir.Create("good", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	expect(t, checkChannels(t.Context(), p), fit, "1 channels, 0 of them mirrors")
	if err := os.WriteFile(filepath.Join(string(p.Dir), "achshm-bad"), []byte("this is no channel, whatever it is called"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := checkChannels(t.Context(), p)
	expect(t, r, failing, "channel rm bad")
	if !strings.Contains(r.Text, "bad: ") || strings.Contains(r.Text, "good: ") {
		t.Errorf("got %q, want only the bad channel", r.Text)
	}
	p.Dir = localach.Dir(filepath.Join(string(p.Dir), "none"))
	expect(t, checkChannels(t.Context(), p), failing, "no such file")
	expect(t, checkShm(t.Context(), p), failing, "mount -t tmpfs")
}

func TestDoctorWarnsThatReadersAreNotWoken(t *testing.T) {
	r := result{State: fit, Text: "no process has a channel open"}
	r.wakesNobody()
	expect(t, r, doubt, "no process has a channel open; the layout of condition variables")
	r = result{State: failing, Text: "imu: bad", Fix: "mend it"}
	r.wakesNobody()
	expect(t, r, failing, "mend it")
}

func TestDoctorChecksWriteAccessOfDaemonUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own, group := os.Getuid(), os.Getgid()
	for _, c := range []struct {
		mode os.FileMode
		who  credentials
		may  bool
	}{
		{0o600, credentials{uid: 12345, gid: 12345}, false},
		{0o640, credentials{uid: 12345, gid: 12345, groups: []int{group}}, false}, // read permission is not enough
		{0o660, credentials{uid: 12345, gid: 12345, groups: []int{group}}, true},
		{0o660, credentials{uid: 12345, gid: group}, true},
		{0o660, credentials{uid: 12345, gid: 12345}, false},
		{0o606, credentials{uid: 12345, gid: group}, false}, // the permissions of the group apply before those of others
		{0o666, credentials{uid: 12345, gid: 12345}, true},
		{0o600, credentials{uid: own, gid: group}, true},
		{0, credentials{}, true},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if got := c.who.mayWrite(path); got != c.may {
			t.Errorf("mode %04o, %+v: got %v, want %v", c.mode, c.who, got, c.may)
		}
	}
}

func TestDoctorChecksKey(t *testing.T) {
	p := newPatient(t)
	if _, err := os.Stat(config.SystemKey); err != nil { // a computer that uses achbridge may have a key
		expect(t, checkKey(t.Context(), p), failing, "no such file")
	}
	path, err := p.KeyPath()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := trust.NewKey().Write(path); err != nil {
		t.Fatal(err)
	}
	expect(t, checkKey(t.Context(), p), fit, path)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, checkKey(t.Context(), p), failing, "chmod 600 "+path)
	if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(path, 0o600)
	expect(t, checkKey(t.Context(), p), failing, "not a key file")
}

// A certificate that expires within 30 days is a warning. An expired or revoked certificate is
// a failure.
func TestDoctorChecksCertificate(t *testing.T) {
	p := newPatient(t)
	issued := time.Now()
	authority, err := trust.NewAuthority(issued)
	if err != nil {
		t.Fatal(err)
	}
	key, err := authority.Issue("krang", issued)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	day := 24 * time.Hour
	for _, c := range []struct {
		at       time.Duration // before the expiry
		state    fitness
		contains string
	}{{40 * day, fit, "for host krang until"}, {29*day + time.Hour, doubt, "ends in 29 days"}, {-day, failing, "has ended"}} {
		expect(t, p.checkTrust(key, path, key.Ends().Add(-c.at)), c.state, c.contains)
	}
	list, err := authority.Revoke(7, []string{key.Serial()}, issued)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".revoked", []byte(list.Text()), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, p.checkTrust(key, path, issued), failing, "up to list 7: its certificate is revoked")
}

func TestDoctorComparesProcessesSharingChannel(t *testing.T) {
	daemon := sharer{1, "achbridge", "glibc 2.36", "glibc 2.25 to 2.40", "pid:[1]"}
	like := func(change func(*sharer)) sharer {
		s := daemon
		s.PID, s.name = 2, "reader"
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		other    sharer
		state    fitness
		contains string
	}{
		"the same":          {like(func(s *sharer) {}), fit, ""},
		"another version":   {like(func(s *sharer) { s.libc = "glibc 2.31" }), fit, ""},
		"another layout":    {like(func(s *sharer) { s.libc, s.layout = "glibc 2.41", "glibc from 2.41" }), failing, "glibc 2.36 and reader (pid 2) has glibc 2.41"},
		"musl":              {like(func(s *sharer) { s.libc, s.layout = "musl", "musl" }), failing, "has musl"},
		"no library at all": {like(func(s *sharer) { s.libc, s.layout = "none", "" }), doubt, "an unknown C library"},
		"another namespace": {like(func(s *sharer) { s.namespace = "pid:[2]" }), failing, "different PID namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			state, text, fix := judgeSharers([]sharer{daemon, c.other})
			expect(t, result{State: state, Text: text, Fix: fix}, c.state, c.contains)
		})
	}
}

// doctor must know the C library of this process.
func TestDoctorFindsMappedChannelsAndLibcVersion(t *testing.T) {
	p := newPatient(t)
	ch, err := p.Dir.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mapped := mappedFiles(text)
	for id, name := range channelFiles(p.Dir) {
		if _, ok := mapped[id]; !ok || name != "imu" { // maps may show the temporary name under which the file was made
			t.Errorf("mappedFiles lacks %s, %v, want it as imu:\n%s", name, id, text)
		}
	}
	s := describeSharer(os.Getpid(), mapped)
	if !strings.HasPrefix(s.libc, "glibc 2.") || s.layout == "" || !strings.HasPrefix(s.namespace, "pid:[") {
		t.Errorf("got %+v, want glibc with its version and a namespace", s)
	}
}

func TestDoctorChecksSystemdUnit(t *testing.T) {
	for _, c := range []struct {
		out      string
		state    fitness
		contains string
	}{
		{"LoadState=not-found\nActiveState=inactive\n", fit, "there is no achbridge.service"},
		{"LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\nUnitFileState=enabled\n", fit, "active (running), enabled at boot"},
		{"LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=3\nUnitFileState=enabled\n", doubt, "restarted 3 times"},
		{"LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=disabled\n", doubt, "systemctl enable --now"},
		{"LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\n", failing, "because of exit-code"},
	} {
		expect(t, unitResult(c.out), c.state, c.contains)
	}
}

func TestDoctorChecksClockAndBuffers(t *testing.T) {
	if err := steady(20 * time.Millisecond); err != nil {
		t.Error(err)
	}
	receive, send, err := socketBuffers()
	if err != nil || receive < 100<<10 || send < 100<<10 {
		t.Errorf("got buffers of %d and %d, %v, want at least 100 KiB", receive, send, err)
	}
	p := newPatient(t)
	if r := checkBuffers(t.Context(), p); r.State == failing {
		t.Errorf("got %+v", r)
	}
	if r := checkClock(t.Context(), p); r.State == failing || !strings.Contains(r.Text, "steady") {
		t.Errorf("got %+v", r)
	}
}

func TestResultKeepsWorstState(t *testing.T) {
	r := result{State: fit}
	for _, step := range []struct {
		state, want fitness
		fix, fixed  string
	}{
		{doubt, doubt, "first", "first"},
		{doubt, doubt, "second", "first"},
		{failing, failing, "third", "third"},
		{doubt, failing, "fourth", "third"},
	} {
		if r.worsen(step.state, step.fix); r.State != step.want || r.Fix != step.fixed {
			t.Errorf("after %s, %s: got %s, %s, want %s, %s", step.state, step.fix, r.State, r.Fix, step.want, step.fixed)
		}
	}
}
