package migrate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call translates a simple command.
func (t *translation) call(c *syntax.CallExpr, at where) {
	t.inside(c, at)
	words := t.valuesOf(c.Args)
	if len(words) == 0 {
		return
	}
	if _, ok := t.functions[words[0].text]; ok && words[0].why == "" {
		t.function(words[0].text, words[1:], at)
		if !isOfAch(words[0]) { // a function achd calls achd
			return
		}
	}
	line := at.at(c)
	i := skipStarters(words)
	if i == len(words) {
		return
	}
	if words[i].why != "" {
		if i+1 < len(words) && isOfAch(words[i+1]) && !strings.Contains(strings.ToLower(words[i].text), "ach") {
			at, i = at.because(words[i].why), i+1 // $SUDO achd …
		} else if strings.Contains(strings.ToLower(words[i].text), "ach") || anyMentions(words) {
			t.leave(line, words[i].why, "")
			return
		}
	}
	program, args := base(words[i].text), words[i+1:]
	switch {
	case program == "achd":
		t.achd(args, line, at)
	case program == "ach" || program == "achtool":
		t.ach(args, line, at)
	case instead[program] != "":
		t.leave(line, instead[program], "")
	case program == "rm" && strings.Contains(joined(args), "/dev/shm/ach"):
		t.leave(line, "run it before the daemon starts: it removes the daemon's mirrors", "")
	case slices.ContainsFunc(words[:i], func(w word) bool { return base(w.text) == "achcop" }):
		t.leave(line, "achcop starts a program again after a failure: a systemd unit with Restart=on-failure does this", "")
	case slices.Contains(shells, program) || program == "su" || program == "eval" || program == "runuser":
		t.nested(program, args, c, at)
	case program == "ssh" && anyMentions(words):
		t.leave(line, "it runs on another host: run achbridge migrate there", "")
	default:
		t.other(program, words, line)
	}
}

// instead says what takes the place of Ach's smaller programs.
var instead = map[string]string{
	"achcat":      "achbridge channel cat prints frames, achbridge channel put writes them",
	"achlog":      "achbridge rec record does this",
	"achpipe":     "Ach had it before achd: a rule of mirror or push replaces it",
	"achpipe.bin": "Ach had it before achd: a rule of mirror or push replaces it",
}

func isOfAch(w word) bool {
	return w.why == "" && slices.Contains([]string{"ach", "achtool", "achd", "achcop"}, base(w.text))
}

func anyMentions(words []word) bool { return mentions(joined(words)) }

func joined(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// nested translates the script that a command gives to another shell: sh -c, su -c, eval.
func (t *translation) nested(program string, args []word, c *syntax.CallExpr, at where) {
	script, ok := scriptOf(args)
	if program == "eval" {
		script, ok = word{text: joined(args)}, true
		for _, a := range args {
			if a.why != "" {
				script.why = a.why
			}
		}
	}
	switch {
	case !ok || !mentions(script.text):
	case script.why != "":
		t.leave(at.at(c), script.why, "")
	default:
		line := at.line
		if !at.one && c.Pos().Line() > 0 {
			line += int(c.Pos().Line()) - 1
		}
		t.script(without(script.text), where{source: script.text, line: line, one: true, deep: at.deep, why: at.why})
	}
}

// other handles a program that does not belong to Ach.
func (t *translation) other(program string, words []word, line string) {
	text := joined(words)
	if s, ok := serverIn(text); ok && (!isIgnored(program) || inetdLine().MatchString(text)) {
		s.line = line
		t.serve(s)
		return
	}
	switch {
	case isIgnored(program):
	case endsOthers(program):
		if mentions(text) {
			t.leave(line, "leave it out: one daemon runs as a service. To end one mirror: achbridge mirror HOST/CHANNEL --off", "")
		}
	case mentions(text):
		t.leave(line, "migrate does not know how "+clean(program)+" runs this", "")
	}
}

// endsOthers reports whether a program ends or starts services.
func endsOthers(program string) bool {
	return slices.Contains([]string{"kill", "pkill", "killall", "service", "systemctl", "trap"}, program)
}
