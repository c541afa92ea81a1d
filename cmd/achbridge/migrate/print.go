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
	w.rules("channels", t.withoutMirrors())
	w.served(t.services)
	slices.SortStableFunc(t.channels, func(a, b note) int { return cmp.Compare(a.number(), b.number()) })
	if len(t.channels) > 0 {
		w.line("")
		w.line("# Other lines about channels. Keep them, or replace them:")
		for _, n := range t.channels {
			w.note(n)
		}
	}
	slices.SortStableFunc(t.untranslated, func(a, b note) int { return cmp.Compare(a.number(), b.number()) })
	left := slices.DeleteFunc(slices.Clone(t.untranslated), func(n note) bool { return t.sure[n.line+n.entry] })
	if len(left) > 0 {
		w.line("")
		w.line("# Not translated, and why:")
		for _, n := range left {
			w.note(n)
		}
	}
	return []byte(w.String())
}

// withoutMirrors returns the entries of the list channels, without those of channels that become mirrors. For each script line of an
// omitted entry it adds a note to t.channels.
func (t *translation) withoutMirrors() (list []entry) {
	for _, e := range t.created {
		if !slices.ContainsFunc(t.mirrors, func(m entry) bool { return m.of.local == e.made }) {
			list = append(list, e)
			continue
		}
		for _, line := range e.lines {
			t.channels = append(t.channels, note{line: line, says: []string{e.made + " is now a mirror, which achbridge creates: leave this line out, or list " + e.made + " in adopt"}})
		}
	}
	return list
}

type page struct{ strings.Builder }

func (w *page) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *page) head(t *translation, name string) {
	w.line("# Translated from %s by achbridge migrate. Read it, then run achbridge check.", name)
	if len(t.peers) > 0 {
		w.line("#")
		w.line("# The hosts in peers must run achbridge. If one runs only achd, remove it from peers, and write achd://HOST")
		w.line("# instead of HOST in its rules.")
	}
	rules := slices.Concat(t.mirrors, t.pushes)
	if slices.ContainsFunc(rules, func(e entry) bool { return e.of.peer == "" }) {
		w.line("#")
		w.line("# The script names a host by its address, for example 192.168.1.51. Its rules read and write through the achd on")
		w.line("# that host. If it runs achbridge, give its name: achbridge migrate --name 192.168.1.51=HOST")
	}
	if slices.ContainsFunc(rules, func(e entry) bool { return e.of.every }) {
		w.line("#")
		w.line("# mode=every transmits all frames in order, as achd does without -l and -u. Remove it where only the newest")
		w.line("# frame matters: over a slow link the mirror is then fresher.")
	}
	if len(t.mirrors) > 0 {
		w.line("#")
		w.line("# achbridge does not write into channels that achd or ach mk made. Before the first start, remove those that")
		w.line("# become mirrors (achbridge channel rm NAME), or list them in adopt.")
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
		if e.of.push && e.of.peer != "" {
			w.line("  # on %s: accept: [%s], and adopt: [%[2]s] if a program there makes the channel", e.of.host, e.of.remote)
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
			w.line("#   it listens on port %s, and achbridge on one port only: let its clients connect to port %s", other, port)
		}
		if nets := networks(s.from); len(nets) > 0 {
			from = strings.Join(nets, ", ")
		}
	}
	w.line("# Stop achd first: two programs cannot listen on one port. Only hosts that still run achd need this section.")
	w.line("# It serves nothing until from lists the clients, and channels (to read) or accept (to write) the channels.")
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

// number returns the number of the note's line.
func (n note) number() (number int) {
	_, _ = fmt.Sscanf(n.line, "line %d:", &number)
	return number
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
