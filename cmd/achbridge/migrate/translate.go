// Package migrate turns shell scripts that call Ach's programs into a configuration:
//
//	text, found, err := migrate.Translate("start.sh", script)
//
// It reads the script and runs nothing of it. Only what is sure becomes an entry. What
// depends on a variable or a condition becomes a comment, which says why and what the entry
// would be.
package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// MaxScript is the largest script that is read, in bytes.
const MaxScript = 128 << 10

// maxNested limits how deep a script can nest: its parser is recursive, and a full stack ends
// the program.
const maxNested = 16 << 10

// Script is a shell script to translate.
type Script struct {
	Name  string // for the comment at the top of the configuration
	Text  []byte
	Hosts map[string]string // names of hosts that run achbridge, by the addresses by which the script names them
}

// Translate returns the text of a configuration that replaces the calls of Ach's programs in a script. If there are no such calls,
// found is false and text is empty.
func Translate(s Script) (text []byte, found bool, err error) {
	script := s.Text
	switch {
	case len(script) > MaxScript:
		return nil, false, fmt.Errorf("larger than %d KiB: is it a script?", MaxScript>>10)
	case nested(script) > maxNested:
		return nil, false, errors.New("too many brackets: is it a script?")
	}
	t := &translation{
		variables: newVariables(), functions: map[string]*syntax.Stmt{}, origins: map[string]where{},
		names: s.Hosts, called: map[string]bool{}, walked: map[walk]bool{}, sure: map[string]bool{},
	}
	source := strings.ReplaceAll(strings.TrimPrefix(string(script), "\ufeff"), "\r\n", "\n") // of an editor on Windows
	rest := t.servers(source)
	t.script(rest, where{source: source, line: 1})
	t.uncalled()
	if !t.found() {
		return nil, false, nil
	}
	return t.print(s.Name), true, nil
}

// nested counts what may stand inside one another and costs the parser most of its stack.
func nested(script []byte) (n int) {
	for _, b := range script {
		if strings.IndexByte("([{`=?*", b) >= 0 {
			n++
		}
	}
	return n
}

// translation is what a script has come to.
type translation struct {
	names        map[string]string // the names of hosts, by their addresses
	peers        []string
	mirrors      []entry
	pushes       []entry
	services     []service
	created      []entry
	channels     []note // lines that remove, describe or search channels
	untranslated []note // what is not translated

	*variables
	functions map[string]*syntax.Stmt
	order     []string // the names of functions, as they come
	origins   map[string]where
	called    map[string]bool
	walked    map[walk]bool
	loops     int             // passes of loops that were walked
	sure      map[string]bool // lines that became entries, with the entry
}

// entry is a rule of mirror, push or channels, with the lines of the script that it replaces.
type entry struct {
	rule  string
	of    request  // the mirror or push; zero for a channel to create
	made  string   // name of the channel to create; "" for a mirror or push
	lines []string // line N: TEXT
	notes []string
}

// note is a line of the script about which there is something to say.
type note struct {
	line  string // line N: TEXT
	says  []string
	entry string // what would take its place; empty: unknown
}

func (t *translation) found() bool {
	return len(t.mirrors)+len(t.pushes)+len(t.services)+len(t.created)+len(t.channels)+len(t.untranslated) > 0
}

// leave notes that a line is not translated, and why.
func (t *translation) leave(line, why, entry string) {
	same := func(n note) bool { return n.line == line && n.entry == entry }
	if !slices.ContainsFunc(t.untranslated, same) {
		t.untranslated = append(t.untranslated, note{line: line, says: []string{why}, entry: entry})
	}
}

// take makes an entry of a wish, or adds the line to the one that is there already.
func (t *translation) take(w request, line string) {
	list := &t.mirrors
	if w.push {
		list = &t.pushes
	}
	for i := range *list {
		if e := &(*list)[i]; e.rule == w.rule() {
			if !slices.Contains(e.lines, line) {
				e.lines = append(e.lines, line)
			}
			t.sure[line+w.entry()] = true
			return
		}
	}
	if why := t.clash(w); why != "" {
		t.leave(line, why, w.entry())
		return
	}
	t.sure[line+w.entry()] = true
	if w.peer != "" && !slices.ContainsFunc(slices.Concat(t.mirrors, t.pushes), func(e entry) bool { return e.of.host == w.host }) {
		t.peers = append(t.peers, w.peer)
	}
	*list = append(*list, entry{rule: w.rule(), of: w, lines: []string{line}, notes: w.notes})
}

// clash returns the reason why a wish conflicts with the earlier entries, or "" if it does not.
func (t *translation) clash(w request) string {
	for _, e := range slices.Concat(t.mirrors, t.pushes) {
		o := e.of
		same := o.host == w.host && o.remote == w.remote
		switch {
		case w.push != o.push && same && o.local == w.local:
			return "an earlier line sends this channel in the other direction between the same hosts: its frames would circulate"
		case w.push != o.push:
		case w.push && o.host == w.host && o.local == w.local:
			return "an earlier line pushes this channel to this host, and a channel is pushed to a host once"
		case !w.push && same:
			return "an earlier line mirrors this channel, and a channel is mirrored once: let programs here read " + o.local
		case !w.push && o.local == w.local:
			return "an earlier line makes a mirror with that name: give this one another name (as=NAME)"
		}
	}
	return ""
}
