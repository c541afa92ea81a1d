package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func doctorCommand(a *app) *cobra.Command {
	var control, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether this host is fit",
		Long: `Look this host over for what keeps channels from being carried: multicast, ports,
buffers, shared memory and the channels in it, the clock, the C libraries of the
processes that share a channel, the paths to the peers of a running daemon, the
key, who runs the daemon. Each check is one line, ok, warning or failure, with its
cure. Nothing is changed; a question goes out by multicast.

Run it as the daemon's user or as root: others cannot look into all processes.
It exits with 1 when a check fails.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), control, file, asJSON)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "look at the host by this configuration `FILE`")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &control)
	return cmd
}

// fitness is how well a check went.
type fitness string

const (
	fit     fitness = "ok"
	doubt   fitness = "warning"
	failing fitness = "failure"
)

// result is what one check has found.
type result struct {
	Check string  `json:"check"`
	State fitness `json:"state"`
	Text  string  `json:"text"`
	Cure  string  `json:"cure,omitempty"`
}

// worsen takes over what one of several things has come to, with its cure, if it is
// worse than the others.
func (r *result) worsen(state fitness, cure string) {
	if state == failing || r.State == fit {
		r.State, r.Cure = state, cure
	}
}

// doctorReport is what `doctor --json` prints.
type doctorReport struct {
	Fit    bool     `json:"fit"` // nothing fails
	Checks []result `json:"checks"`
}

// patient is a host that is looked over.
type patient struct {
	*app
	config *config
	wrong  error        // why it cannot be loaded; config is then the default
	daemon *statusReply // nil: none runs
	asked  error        // why it could not be asked
}

// checks are all that doctor does, in the order in which it is shown. Each is a
// function of its own, and tells of one thing.
var checks = []struct {
	name string
	look func(context.Context, *patient) result
}{
	{"configuration", checkConfiguration},
	{"daemon", checkDaemon},
	{"unit", checkUnit},
	{"user", checkUser},
	{"key", checkKey},
	{"clock", checkClock},
	{"shared memory", checkShm},
	{"channels", checkChannels},
	{"libc", checkSharers},
	{"ports", checkPorts},
	{"buffers", checkBuffers},
	{"multicast", checkMulticast},
	{"hosts", checkHosts},
	{"paths", checkPaths},
}

func (a *app) doctor(ctx context.Context, control, file string, asJSON bool) error {
	p := a.patient(ctx, control, file)
	report := doctorReport{Fit: true}
	for _, c := range checks {
		r := c.look(ctx, p)
		r.Check = c.name
		report.Checks = append(report.Checks, r)
		report.Fit = report.Fit && r.State != failing
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if asJSON {
		if err := a.ui.json(report); err != nil {
			return err
		}
	} else if err := a.showDoctor(report); err != nil {
		return err
	}
	if !report.Fit {
		return failed(errors.New("this host is not fit"), "")
	}
	return nil
}

// patient finds out what the checks have in common.
func (a *app) patient(ctx context.Context, control, file string) *patient {
	p := &patient{app: a}
	p.read(file)
	c := a.client(cmp.Or(control, p.config.Control))
	var s statusReply
	if _, p.asked = c.get(ctx, "/v1/status", &s); p.asked != nil {
		return p
	}
	p.daemon = &s
	var told daemonSetup
	if _, err := c.get(ctx, "/v1/setup", &told); err == nil && file == "" {
		if told.Config != absolute(p.config.path) {
			p.read(told.Config)
		}
		p.config.Key, p.config.State, p.config.Interfaces = told.Key, told.State, told.Interfaces
		_ = p.config.Discovery.Set(told.Discovery) // it was one once
	}
	return p
}

// read loads a configuration, "" for the usual one.
func (p *patient) read(file string) {
	p.config, p.wrong = p.source(file, nil).load()
	if p.wrong != nil {
		p.config = &config{settings: defaultSettings(), path: file}
	}
}

// showDoctor prints a line for each check; a cure goes below it.
func (a *app) showDoctor(r doctorReport) error {
	for _, c := range r.Checks {
		state := fmt.Sprintf("%-8s", c.State)
		switch c.State {
		case failing:
			state = paint(a.ui.outColor, "31", state)
		case doubt:
			state = paint(a.ui.outColor, "33", state)
		}
		const indent = 25
		if err := a.ui.line("%s  %-13s  %s", state, c.Check, a.ui.wrap(indent, c.Text)); err != nil {
			return err
		}
		if c.Cure == "" || c.State == fit {
			continue
		}
		if err := a.ui.line("%*s%s", indent, "", a.ui.wrap(indent, "cure: "+c.Cure)); err != nil {
			return err
		}
	}
	return nil
}

func checkConfiguration(_ context.Context, p *patient) result {
	if p.wrong != nil {
		return result{State: failing, Text: strings.ReplaceAll(strings.TrimSpace(p.wrong.Error()), "\n", "; "), Cure: "achbridge check"}
	}
	return result{State: fit, Text: cmp.Or(p.config.path, "no file: all as by default")}
}

func checkDaemon(_ context.Context, p *patient) result {
	switch {
	case p.daemon != nil:
		return result{State: fit, Text: fmt.Sprintf("%s runs, pid %d, as host %s, up %s", p.daemon.Version, p.daemon.PID, p.daemon.Host, seconds(p.daemon.UptimeS))}
	case errors.Is(p.asked, errNoDaemon):
		return result{State: doubt, Text: "none is running", Cure: "achbridge run, or systemctl enable --now achbridge"}
	}
	return result{State: failing, Text: p.asked.Error(), Cure: "run doctor as the daemon's user, or as root"}
}

// account is a user as processes have it.
type account struct {
	uid, gid int
	groups   []int
}

// account is who the daemon runs as, or would if it were started now.
func (p *patient) account() account {
	if p.daemon != nil {
		if who, err := accountOf(p.daemon.PID); err == nil {
			return who
		}
	}
	groups, _ := os.Getgroups()
	return account{os.Geteuid(), os.Getegid(), groups}
}

// accountOf is who a process runs as.
func accountOf(pid int) (who account, err error) {
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
	who := p.account()
	name := userText(who.uid, who.gid)
	if who.uid == 0 {
		return result{State: doubt, Text: "the daemon runs as root, which it has no need of",
			Cure: "run it as a user of the channels' group: the packaged unit does (User=achbridge, Group=ach)"}
	}
	return result{State: fit, Text: "the daemon runs as " + name}
}
