package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// where says in which text a command stands, and whether it is sure to run.
type where struct {
	source string
	line   int    // of the first line of the text
	one    bool   // the whole text stands in one line of the script
	deep   int    // how many scripts are around this one
	why    string // why it may not run; empty: it runs
}

// because returns w for commands that may not run, with the reason why. An earlier reason stays.
func (w where) because(why string) where {
	if w.why == "" {
		w.why = why
	}
	return w
}

// at returns the description of a node: line N: TEXT.
func (w where) at(n syntax.Node) string {
	from, to := n.Pos(), n.End()
	line := w.line
	if !w.one && from.Line() > 0 {
		line += int(from.Line()) - 1
	}
	begin := min(int(from.Offset()), len(w.source))
	end := min(max(begin, int(to.Offset())), len(w.source))
	return shown(line, w.source[begin:end])
}

// shown returns a line of the script for a comment of the configuration.
func shown(line int, text string) string {
	const longest = 160
	text = strings.ReplaceAll(text, "\\\n", " ")
	runes := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	if len(runes) > longest {
		runes = append(runes[:longest], '…')
	}
	return fmt.Sprintf("line %d: %s", line, string(runes))
}

// walk identifies a walk of a function's body, so that the same walk is not repeated.
type walk struct {
	name  string // name of the function
	sure  bool   // the function is sure to be called
	bound string // values of the bound variables
}

// maxScripts is the maximum depth of nested scripts, as in sh -c "sh -c …", and of nested function calls.
const maxScripts = 5

// maxWalks is the maximum number of walks of function bodies, and likewise of loop bodies.
const maxWalks = 1000

// script walks a text. It reads all statements before the first syntax error, and none after it.
func (t *translation) script(text string, at where) {
	if at.deep++; at.deep > maxScripts {
		return
	}
	var list []*syntax.Stmt
	end := 0
	err := parse(text, func(s *syntax.Stmt) {
		list = append(list, s)
		end = int(s.End().Line())
	})
	for _, s := range list {
		t.learn(s, at)
	}
	t.stmts(list, at)
	if err == nil {
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if i < end || !mentions(line) || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		number := at.line
		if !at.one {
			number += i
		}
		t.leave(shown(number, line), unreadable(err, at), "")
	}
}

// unreadable returns a description of a syntax error, with its place.
func unreadable(err error, at where) string {
	bad, ok := errors.AsType[syntax.ParseError](err)
	if !ok {
		return "no shell can read the script: " + err.Error()
	}
	line := at.line
	if !at.one && bad.Pos.Line() > 0 {
		line += int(bad.Pos.Line()) - 1
	}
	return fmt.Sprintf("no shell can read the script from line %d on: %s", line, bad.Text)
}

// parse reads statements, one after the other. It recovers when the parser panics.
func parse(text string, each func(*syntax.Stmt)) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("not readable: %v", cause)
		}
	}()
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for s, err := range parser.StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			return err
		}
		each(s)
	}
	return nil
}

// learn records the functions and variables that a statement sets.
func (t *translation) learn(s *syntax.Stmt, at where) {
	syntax.Walk(s, func(n syntax.Node) bool {
		t.variables.learn(n)
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil && f.Body != nil {
			name := f.Name.Value
			if !slices.Contains(t.order, name) {
				t.order = append(t.order, name)
			}
			t.functions[name], t.origins[name] = f.Body, at
		}
		return true
	})
}

// uncalled walks the functions that nothing has called.
func (t *translation) uncalled() {
	for _, name := range t.order {
		if !t.called[name] {
			t.function(name, nil, where{why: "the script does not call the function " + name + ", which contains it"})
		}
	}
}

// function walks the body of a function for a call at from. It walks the body only once for equal values of variables and arguments,
// but separately for calls that are sure to run and for others.
func (t *translation) function(name string, args []word, from where) {
	at := t.origins[name]
	at.why, at.deep = from.why, from.deep+1
	values := map[string]string{}
	for i, a := range args {
		if a.why == "" {
			values[strconv.Itoa(i+1)] = a.text
		}
	}
	t.bind(values, func() {
		key := walk{name, from.why == "", fmt.Sprint(t.bound)}
		if t.walked[key] || at.deep > maxScripts || len(t.walked) > maxWalks {
			return
		}
		t.walked[key], t.called[name] = true, true
		t.stmts([]*syntax.Stmt{t.functions[name]}, at)
	})
}

func (t *translation) stmts(list []*syntax.Stmt, at where) {
	for _, s := range list {
		t.stmt(s, at)
	}
}

func (t *translation) stmt(s *syntax.Stmt, at where) {
	if s == nil {
		return
	}
	for _, r := range s.Redirs {
		if r.Hdoc != nil {
			t.document(s, r, at)
		} else if r.Word != nil {
			t.inside(r.Word, at)
		}
	}
	switch c := s.Cmd.(type) {
	case nil, *syntax.FuncDecl:
	case *syntax.CallExpr:
		t.call(c, at)
	case *syntax.Block:
		t.stmts(c.Stmts, at)
	case *syntax.Subshell:
		t.stmts(c.Stmts, at)
	case *syntax.TimeClause:
		t.stmt(c.Stmt, at)
	case *syntax.CoprocClause:
		t.stmt(c.Stmt, at)
	case *syntax.BinaryCmd:
		t.binary(c, at)
	case *syntax.IfClause:
		t.choice(c, at)
	case *syntax.WhileClause:
		t.loop(c, at)
	case *syntax.ForClause:
		t.forEach(c, at)
	case *syntax.CaseClause:
		t.inside(c.Word, at)
		for _, item := range c.Items {
			t.stmts(item.Stmts, at.because("it runs only in one branch of a case"))
		}
	default:
		t.inside(c, at)
	}
}

// binary translates both sides of |, && and ||.
func (t *translation) binary(c *syntax.BinaryCmd, at where) {
	t.stmt(c.X, at)
	switch {
	case c.Op == syntax.OrStmt:
		at = at.because("it runs only when the command before || fails")
	case c.Op == syntax.AndStmt && !t.works(c.X):
		at = at.because("it runs only when the command before && works")
	}
	t.stmt(c.Y, at)
}

// works reports whether a statement is one that scripts expect to work: no question.
func (t *translation) works(s *syntax.Stmt) bool {
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.AndStmt {
		return t.works(b.X) && t.works(b.Y)
	}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated {
		return false
	}
	if len(c.Args) == 0 {
		return true // assignments
	}
	words := t.valuesOf(c.Args)
	i := skipStarters(words)
	return i < len(words) && slices.Contains([]string{"ach", "achtool", "achd", "cd", "echo", "export", "mkdir", "sleep", "set", "true", "umask", "modprobe"}, base(words[i].text))
}

func (t *translation) choice(c *syntax.IfClause, at where) {
	for ; c != nil; c = c.Else {
		t.stmts(c.Cond, at)
		at = at.because("it runs only under a condition (if)")
		t.stmts(c.Then, at)
	}
}

// forEach translates a for loop. If all values of its list are known, it walks the body once for each, otherwise once in all.
func (t *translation) forEach(c *syntax.ForClause, at where) {
	t.inside(c.Loop, at)
	if c.Select {
		at = at.because("it runs only when a person chooses it (select)")
	}
	list, ok := c.Loop.(*syntax.WordIter)
	if !ok || c.Select || !list.InPos.IsValid() {
		t.stmts(c.Do, at)
		return
	}
	values := t.valuesOf(list.Items)
	if slices.ContainsFunc(values, func(w word) bool { return w.why != "" }) {
		t.stmts(c.Do, at)
		return
	}
	for _, w := range values {
		if t.loops++; t.loops > maxWalks {
			return
		}
		t.bind(map[string]string{list.Name.Value: w.text}, func() { t.stmts(c.Do, at) })
	}
}

// loop translates a while or until loop. An endless loop, as in while true, equals its body, because the
// daemon does not end and repeats attempts itself.
func (t *translation) loop(c *syntax.WhileClause, at where) {
	t.stmts(c.Cond, at)
	if !t.endless(c) {
		at = at.because("it runs only under a condition (while or until)")
	}
	t.stmts(c.Do, at)
}

func (t *translation) endless(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 || c.Cond[0].Negated {
		return false
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	if !ok {
		return false
	}
	var words []string
	for _, w := range t.valuesOf(call.Args) {
		words = append(words, w.text)
	}
	condition := strings.Join(words, " ")
	if c.Until {
		return condition == "false"
	}
	return slices.Contains([]string{"true", ":", "[ 1 ]", "[ true ]", "test 1", "/bin/true"}, condition)
}

// inside walks the commands whose output a node uses.
func (t *translation) inside(n syntax.Node, at where) {
	if n == nil {
		return
	}
	at = at.because("the script uses its output")
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			t.stmts(n.Stmts, at)
			return false
		case *syntax.ProcSubst:
			t.stmts(n.Stmts, at)
			return false
		}
		return true
	})
}
