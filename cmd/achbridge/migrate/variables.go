package migrate

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables has the values of a script's variables. The value of a variable is known if the script sets it only once, to a text.
// While a loop or function is walked, the loop's variable and the function's arguments are bound to one value each.
type variables struct {
	set     map[string]*syntax.Word // texts to which the script sets variables; nil means the empty text
	changed map[string]bool         // variables that are set several times, or not to a text, so that their values are not known
	bound   map[string]string       // values of loop variables and arguments in the present walk
	lookups int                     // number of calls of lookup
}

// maxLookups is the maximum number of lookups. Values may refer to other variables, so a hostile script could need very many.
const maxLookups = 10000

// maxValue is the maximum length in bytes of a value. Longer ones count as not known.
const maxValue = 1000

func newVariables() *variables {
	return &variables{set: map[string]*syntax.Word{}, changed: map[string]bool{}, bound: map[string]string{}}
}

// bind binds variables to values while walk runs.
func (v *variables) bind(values map[string]string, walk func()) {
	before := v.bound
	v.bound = maps.Clone(before)
	maps.Copy(v.bound, values)
	walk()
	v.bound = before
}

// learn records how the syntax node n sets variables.
func (v *variables) learn(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		if len(n.Args) == 0 { // an assignment before a command is only for that command
			v.assign(n.Assigns)
		}
		v.command(n.Args)
	case *syntax.DeclClause:
		v.assign(n.Args)
	case *syntax.WordIter:
		v.changed[n.Name.Value] = true
	case *syntax.ParamExp:
		if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.changed[n.Param.Value] = true
		}
	case *syntax.BinaryArithm:
		if n.Op >= syntax.Assgn {
			v.calculated(n.X)
		}
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			v.calculated(n.X)
		}
	}
}

func (v *variables) assign(list []*syntax.Assign) {
	for _, a := range list {
		if a.Name == nil || a.Naked {
			continue
		}
		name := a.Name.Value
		if _, twice := v.set[name]; twice || a.Append || a.Array != nil || a.Index != nil {
			v.changed[name] = true
		}
		v.set[name] = a.Value
	}
}

// setters are commands that set the variables that they name.
var setters = []string{"read", "getopts", "mapfile", "readarray", "unset", "printf"}

func (v *variables) command(args []*syntax.Word) {
	if len(args) == 0 || !slices.Contains(setters, args[0].Lit()) {
		return
	}
	for _, a := range args[1:] {
		if name := a.Lit(); name != "" {
			v.changed[name] = true
		}
	}
}

func (v *variables) calculated(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		v.changed[w.Lit()] = true
	}
}

// expansion returns the value of $NAME, ${NAME} or ${NAME:-TEXT} in a word.
func (v *variables) expansion(p *syntax.ParamExp) word {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return unknown("?")
	}
	name := p.Param.Value
	w := v.lookup(name)
	switch {
	case p.Exp == nil:
		return w
	case p.Exp.Word == nil || p.Exp.Op != syntax.DefaultUnset && p.Exp.Op != syntax.DefaultUnsetOrNull:
		return unknown(name)
	case w.why == "" && w.text != "":
		return w
	}
	preset := v.valueOf(p.Exp.Word.Parts, true)
	return word{preset.text, "only the shell knows whether $" + clean(name) + " is set"}
}

func unknown(name string) word {
	name = clean(name)
	return word{"$" + name, "only the shell knows the variable $" + name}
}

// lookup returns the value of a variable, or the result of unknown.
func (v *variables) lookup(name string) word {
	if v.lookups++; v.lookups > maxLookups {
		return unknown(name)
	}
	if text, known := v.bound[name]; known {
		return word{text: text}
	}
	assigned, found := v.set[name]
	if !found || v.changed[name] {
		return unknown(name)
	}
	if assigned == nil {
		return word{}
	}
	delete(v.set, name) // a variable whose value contains itself is not known
	bound := v.bound
	v.bound = maps.Clone(bound)
	maps.DeleteFunc(v.bound, func(name, _ string) bool { return isArgument(name) }) // $1 in the value is not an argument of the function that uses the variable
	w := v.valueOf(assigned.Parts, false)
	v.set[name], v.bound = assigned, bound
	if strings.HasPrefix(w.text, "~") || len(w.text) > maxValue {
		return unknown(name)
	}
	return w
}

func isArgument(name string) bool { return strings.Trim(name, "0123456789") == "" }
