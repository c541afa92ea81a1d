package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

// fitness is the outcome of a check.
type fitness string

const (
	fit     fitness = "ok"
	doubt   fitness = "warning"
	failing fitness = "failure"
)

// result is the result of one check.
type result struct {
	Check string  `json:"check"`
	State fitness `json:"state"`
	Text  string  `json:"text"`
	Fix   string  `json:"cure,omitempty"`
}

// worsen sets the state and the fix if state is worse than the present one.
func (r *result) worsen(state fitness, fix string) {
	if state == failing || r.State == fit {
		r.State, r.Fix = state, fix
	}
}

// Report is what `doctor --json` prints.
type Report struct {
	Fit    bool     `json:"fit"` // no check failed
	Checks []result `json:"checks"`
}

// Host has what Examine needs to know of the host.
type Host struct {
	view.Host
	TryPorts func(listen string, mode via.Kind) (at string, err error) // checks that the ports are free
}

// patient is the host that is checked.
type patient struct {
	Host
	config    *config.Config
	wrong     error            // why the configuration cannot be loaded; config then has the defaults
	daemon    *api.StatusReply // nil: no daemon runs
	daemonErr error            // why the daemon did not answer
	joined    []api.Membership // the daemon's memberships of the mDNS group; nil if it did not answer
}

// checks are all checks, in the order in which their results are shown.
var checks = []struct {
	name string
	run  func(context.Context, *patient) result
}{
	{"configuration", checkConfiguration},
	{"daemon", checkDaemon},
	{"unit", checkUnit},
	{"user", checkUser},
	{"key", checkKey},
	{"machine", checkMachine},
	{"clock", checkClock},
	{"shared memory", checkShm},
	{"channels", checkChannels},
	{"removed", checkRemoved},
	{"inotify", checkInotify},
	{"libc", checkSharers},
	{"ports", checkPorts},
	{"buffers", checkBuffers},
	{"multicast", checkMulticast},
	{"hosts", checkHosts},
	{"paths", checkPaths},
	{"hub", checkHub},
}

// Examine checks the host h. file is the configuration file, "" for the daemon's or the usual
// one. control is the path of the daemon's socket, "" for the usual one.
func Examine(ctx context.Context, h Host, control, file string) (Report, error) {
	p := h.patient(ctx, control, file)
	report := Report{Fit: true}
	for _, c := range checks {
		r := c.run(ctx, p)
		r.Check = c.name
		report.Checks = append(report.Checks, r)
		report.Fit = report.Fit && r.State != failing
	}
	return report, ctx.Err()
}

// patient collects the facts that several checks need.
func (h Host) patient(ctx context.Context, control, file string) *patient {
	p := &patient{Host: h}
	p.read(file)
	c := h.Client(cmp.Or(control, p.config.Control))
	var s api.StatusReply
	if _, p.daemonErr = c.Get(ctx, "/v1/status", &s); p.daemonErr != nil {
		return p
	}
	p.daemon = &s
	var setup api.DaemonSetup
	if _, err := c.Get(ctx, "/v1/setup", &setup); err == nil && file == "" {
		if setup.Config != config.Absolute(p.config.Path) {
			p.read(setup.Config)
		}
		p.joined = setup.Memberships
		p.config.Key, p.config.State, p.config.Interfaces = setup.Key, setup.State, setup.Interfaces
		_ = p.config.Discovery.Set(setup.Discovery) // cannot fail: the daemon's value is valid
	}
	return p
}

// read loads a configuration, "" for the usual one.
func (p *patient) read(file string) {
	p.config, p.wrong = p.Source(file, nil).Load()
	if p.wrong != nil {
		p.config = &config.Config{Settings: config.Defaults(), Path: file}
	}
}

// Show prints a line for each check, with the fix below.
func (r Report) Show(t *ui.Terminal) error {
	for _, c := range r.Checks {
		state := fmt.Sprintf("%-8s", c.State)
		switch c.State {
		case failing:
			state = t.Color.Paint("31", state)
		case doubt:
			state = t.Color.Paint("33", state)
		}
		const indent = 25
		if err := t.Line("%s  %-13s  %s", state, c.Check, t.Wrap(indent, c.Text)); err != nil {
			return err
		}
		if c.Fix == "" || c.State == fit {
			continue
		}
		if err := t.Line("%*s%s", indent, "", t.Wrap(indent, "fix: "+c.Fix)); err != nil {
			return err
		}
	}
	return nil
}

func checkConfiguration(_ context.Context, p *patient) result {
	if p.wrong != nil {
		return result{State: failing, Text: strings.ReplaceAll(strings.TrimSpace(p.wrong.Error()), "\n", "; "), Fix: "achbridge check"}
	}
	return result{State: fit, Text: cmp.Or(p.config.Path, "no file: all settings have their defaults")}
}

func checkDaemon(_ context.Context, p *patient) result {
	switch {
	case p.daemon != nil:
		return result{State: fit, Text: fmt.Sprintf("%s runs, pid %d, as host %s, up %s", p.daemon.Version, p.daemon.PID, p.daemon.Host, ui.Seconds(p.daemon.UptimeS))}
	case errors.Is(p.daemonErr, api.ErrNoDaemon):
		return result{State: doubt, Text: "no daemon is running", Fix: "achbridge run, or systemctl enable --now achbridge"}
	}
	return result{State: failing, Text: p.daemonErr.Error(), Fix: "run doctor as the daemon's user, or as root"}
}

// credentials is the user and the groups of a process.
type credentials struct {
	uid, gid int
	groups   []int
}

// credentials is the account that the daemon runs as, or would if it were started now.
func (p *patient) credentials() credentials {
	if p.daemon != nil {
		if who, err := credentialsOf(p.daemon.PID); err == nil {
			return who
		}
	}
	groups, _ := os.Getgroups()
	return credentials{os.Geteuid(), os.Getegid(), groups}
}

// GroupsOf returns the groups of a process, nil for root.
func GroupsOf(pid int) ([]int, error) {
	who, err := credentialsOf(pid)
	if who.uid == 0 {
		return nil, err
	}
	return append(who.groups, who.gid), err
}

// credentialsOf is the account that a process runs as.
func credentialsOf(pid int) (who credentials, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return who, err
	}
	for line := range strings.Lines(string(text)) {
		key, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) > 1 && key == "Uid" {
			who.uid, _ = strconv.Atoi(fields[1]) // the effective one
		}
		if len(fields) > 1 && key == "Gid" {
			who.gid, _ = strconv.Atoi(fields[1])
		}
		if key == "Groups" {
			for _, f := range fields {
				gid, _ := strconv.Atoi(f)
				who.groups = append(who.groups, gid)
			}
		}
	}
	return who, nil
}

func checkUser(_ context.Context, p *patient) result {
	who := p.credentials()
	name := ui.UserText(who.uid, who.gid)
	if who.uid == 0 {
		return result{State: doubt, Text: "the daemon runs as root, which it does not need",
			Fix: "run it as a user of the channels' group: the packaged unit does (User=achbridge, Group=ach)"}
	}
	return result{State: fit, Text: "the daemon runs as " + name}
}
