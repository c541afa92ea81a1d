package migrate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// document translates a here-document, which is a script for a shell or text for another program.
func (t *translation) document(s *syntax.Stmt, r *syntax.Redirect, at where) {
	begin, end := int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset())
	if begin > end || end > len(at.source) {
		return
	}
	body := at.source[begin:end]
	inner := where{source: body, line: at.line, one: at.one, deep: at.deep, why: at.why}
	if !at.one {
		inner.line += int(r.Hdoc.Pos().Line()) - 1
	}
	program := ""
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		words := t.valuesOf(c.Args)
		if i := skipStarters(words); i < len(words) {
			program = base(words[i].text)
		}
	}
	if slices.Contains(shells, program) {
		t.script(without(body), inner)
		return
	}
	if isIgnored(program) || program == "cat" && len(s.Redirs) == 1 {
		return // a comment, as in : <<END, or text for a person
	}
	for i, line := range strings.Split(without(body), "\n") {
		if mentions(line) {
			number := inner.line
			if !inner.one {
				number += i
			}
			t.leave(shown(number, line), text(program), "")
		}
	}
}

// text returns the reason why text for a program is not translated.
func text(program string) string {
	switch program {
	case "":
		return "it is text for another program"
	case "ssh":
		return "it runs on another host: run achbridge migrate there"
	}
	return "it is text for " + clean(program) + ": translate that text by itself"
}
