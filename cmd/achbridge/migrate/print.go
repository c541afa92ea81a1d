package migrate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// print returns the text of the configuration.
func (t *translation) print(name string) []byte {
	w := &page{}
	w.head(t, clean(name))
	w.list("peers", t.peers)
	w.rules("mirror", t.mirrors)
	w.rules("push", t.pushes)
	w.served(t.services)
	if len(t.channels) > 0 {
		w.line("")
		w.line("# Channels: the configuration makes none. These lines may stay; or another takes their place:")
		for _, n := range t.channels {
			if slices.ContainsFunc(t.mirrors, func(e entry) bool { return e.of.local == n.made }) {
				n.says = []string{"nothing: " + n.made + " is a mirror now, which achbridge makes. Leave the line out, or name " + n.made + " below adopt"}
			}
			w.note(n)
		}
	}
	left := slices.DeleteFunc(slices.Clone(t.untranslated), func(n note) bool { return t.sure[n.line] && n.entry != "" })
	if len(left) > 0 {
		w.line("")
		w.line("# Not translated, and why:")
		for _, n := range left {
			w.note(n)
		}
	}
	return []byte(w.String())
}

type page struct{ strings.Builder }

func (w *page) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *page) head(t *translation, name string) {
	w.line("# Made of %s by achbridge migrate. Read it, then let achbridge check look it through.", name)
	if len(t.peers) > 0 {
		w.line("#")
		w.line("# Each host of peers needs an achbridge. For one that has only achd write achd:// in front of its")
		w.line("# name in mirror and push, as in achd://robot/imu, and take it out of peers.")
	}
	every := func(e entry) bool { return e.of.every }
	if slices.ContainsFunc(t.mirrors, every) || slices.ContainsFunc(t.pushes, every) {
		w.line("#")
		w.line("# mode=every: all frames, in order, as achd sent them without -l and -u. Take it out where the")
		w.line("# newest frame is what counts: over a slow link that one is then younger.")
	}
	if len(t.mirrors) > 0 {
		w.line("#")
		w.line("# A channel that achd or ach mk made is not written into. Before the first start remove those")
		w.line("# that are to be mirrors (achbridge channel rm NAME), or name them below adopt.")
	}
}

func (w *page) list(key string, values []string) {
	if len(values) == 0 {
		return
	}
	w.line("\n%s:", key)
	for _, v := range values {
		w.line("  - %s", quoted(v))
	}
}

func (w *page) rules(key string, list []entry) {
	if len(list) == 0 {
		return
	}
	w.line("\n%s:", key)
	for _, e := range list {
		for _, line := range e.lines {
			w.line("  # %s", line)
		}
		if e.of.push {
			w.line("  # %s must take it: accept: [%s] there, and adopt: [%[2]s] if a program there makes it", e.of.host, e.of.remote)
		}
		for _, n := range e.notes {
			w.line("  # %s", n)
		}
		w.line("  - %s", quoted(e.rule))
	}
}

// served writes the section for programs that use achd's protocol. A person has to add the
// clients that may connect.
func (w *page) served(list []service) {
	if len(list) == 0 {
		return
	}
	w.line("")
	from, port := "192.168.1.0/24", cmp.Or(list[0].port, "8076")
	for _, s := range list {
		w.line("# %s", s.line)
		if other := cmp.Or(s.port, "8076"); other != port {
			w.line("#   at port %s, and achbridge listens at one: let the clients of this one connect to port %s", other, port)
		}
		if nets := networks(s.from); len(nets) > 0 {
			from = strings.Join(nets, ", ")
		}
	}
	w.line("# End this first: two programs cannot listen at one port. Only hosts that still have achd need")
	w.line("# the section. It serves nothing until from says who, and channels (to read) or accept (to write) what.")
	w.line("achd:")
	w.line("  listen: ':%s'", port)
	w.line("  # from: [%s]", from)
	w.line("  # channels: ['imu*', joints]")
	w.line("  # accept: [goal]   # and adopt: [goal] at the top level")
}

// networks returns the networks of only_from that are valid in the configuration.
func networks(text string) (list []string) {
	for _, f := range strings.Fields(text) {
		if _, err := netip.ParsePrefix(f); err == nil || isAddress(f) {
			list = append(list, f)
		}
	}
	return list
}

func (w *page) note(n note) {
	w.line("#")
	w.line("# %s", n.line)
	for _, s := range n.says {
		w.line("#   %s", strings.ReplaceAll(clean(s), "\n", " "))
	}
	if n.entry != "" {
		w.line("#   it would be %s", n.entry)
	}
}

// quoted returns a text as a quoted YAML string.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
