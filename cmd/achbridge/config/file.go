package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"achbridge/cmd/achbridge/ui"
)

// entry is one key of the configuration file with its values.
type entry struct {
	key    configKey
	at     origin
	values []value
	rules  []ruleEntry
	types  []typeRule
}

// value is one value of the file, as text.
type value struct {
	text string
	at   origin
}

// maxConfig limits the size of a configuration file, in bytes.
const maxConfig = 256 << 10

// parseConfig parses the text of a configuration file. path is used only for positions in
// errors. parseConfig checks that all keys exist and that each holds one value, a list
// or rules as it must. It does not check the values.
func parseConfig(path string, text []byte) (entries []entry, found Problems) {
	p := &configParser{path: path}
	file, err := p.yaml(text)
	if err != nil {
		p.syntax(err)
		return nil, p.Problems
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil || d.Body.Type() == ast.CommentType })
	if len(docs) == 0 {
		return nil, nil
	}
	if len(docs) > 1 {
		p.add(p.place(docs[1].Body), "more than one document; leave out the line ---")
		return nil, p.Problems
	}
	for _, pair := range p.mapping(docs[0].Body, origin{Source: path}, "the keys of the configuration, as in name: krang") {
		names := keysIn(pair.key)
		if names == nil {
			entries = p.entry(entries, pair, "")
			continue
		}
		for _, below := range p.mapping(pair.value, pair.at, "keys, as in "+names[0]) {
			entries = p.entry(entries, below, pair.key)
		}
	}
	return entries, p.Problems
}

// configParser collects the problems of one file.
type configParser struct {
	path string
	Problems
}

// yaml parses the file into a tree. It recovers when the parser panics, so that odd text
// cannot end the daemon.
func (p *configParser) yaml(text []byte) (file *ast.File, err error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("larger than %d KiB: is it a configuration?", maxConfig>>10)
	}
	if depth(text) > maxDepth {
		return nil, errors.New("too many brackets inside one another: is it a configuration?")
	}
	defer func() {
		if cause := recover(); cause != nil {
			file, err = nil, fmt.Errorf("not readable as YAML: %v", cause)
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

// maxDepth limits how deep brackets and indentation may nest.
const maxDepth = 100

// depth returns an upper bound of the nesting depth of a YAML text.
func depth(text []byte) int {
	open, most := 0, 0
	for line := range strings.Lines(string(text)) {
		indent := len(line) - len(strings.TrimLeft(line, " -?\t"))
		most = max(most, indent/2+1)
	}
	for _, b := range text {
		switch b {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		most = max(most, open)
	}
	return most
}

// syntax records an error of the YAML parser as a problem.
func (p *configParser) syntax(err error) {
	at, text := origin{Source: p.path}, err.Error()
	if bad, ok := errors.AsType[yaml.Error](err); ok {
		text = bad.GetMessage()
		at = p.placeOf(bad.GetToken())
	}
	text, _, _ = strings.Cut(text, "\n")
	p.add(at, "%s", strings.TrimSuffix(text, ".")+hintFor(text))
}

// hintFor returns the usual cause of a message of the YAML parser.
func hintFor(text string) string {
	for _, h := range []struct{ sign, hint string }{
		{"\t", "; indent by blanks, not by tabs"},
		{"tab character", "; indent by blanks, not by tabs"},
		{"mapping value is not allowed", "; are the lines that belong together indented alike? text with \": \" in it needs quotes"},
		{"alias", "; text that begins with * needs quotes, as in '*'"},
		{"anchor", "; text that begins with & needs quotes"},
		{"unexpected scalar", "; text that begins with * needs quotes, as in '*'"},
		{"must be specified", "; is a bracket left open before it?"},
		{"not found", "; is a bracket left open?"},
		{"could not find", "; is a bracket or a quote left open?"},
	} {
		if strings.Contains(text, h.sign) {
			return h.hint
		}
	}
	return ""
}

func (p *configParser) place(n ast.Node) origin {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return p.place(m.Values[0])
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return p.place(v.Key)
	}
	return p.placeOf(n.GetToken())
}

func (p *configParser) placeOf(t *token.Token) origin {
	at := origin{Source: p.path}
	if t != nil && t.Position != nil {
		at.Line, at.Column = t.Position.Line, t.Position.Column
	}
	return at
}

// pair is one key of a mapping.
type pair struct {
	key   string
	at    origin // where the key is
	value ast.Node
}

// mapping returns the keys of n. want describes what should be there, for the problem when n
// is not a mapping.
func (p *configParser) mapping(n ast.Node, under origin, want string) []pair {
	var nodes []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		nodes = m.Values
	case *ast.MappingValueNode:
		nodes = []*ast.MappingValueNode{m}
	default:
		p.add(under.or(p.place(n)), "%s; want %s", described(n), want)
		return nil
	}
	var pairs []pair
	first := map[string]int{}
	for _, node := range nodes {
		key, at := node.Key.GetToken().Value, p.place(node.Key)
		at.Path = under.Path
		at = at.at(key)
		switch node.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode:
		default:
			p.add(at, "%s; want a plain key", described(node.Key))
			continue
		}
		if line, twice := first[key]; twice {
			p.add(at, "is given twice; first on line %d", line)
			continue
		}
		first[key] = at.Line
		pairs = append(pairs, pair{key, at, node.Value})
	}
	return pairs
}

// or returns q with the path of p.
func (p origin) or(q origin) origin {
	q.Path = p.Path
	return q
}

// entry appends the entry of one key, unless the entry has an error. section is the parent
// key; "" at the top level.
func (p *configParser) entry(entries []entry, in pair, section string) []entry {
	name, names := in.key, Keys()
	if section != "" {
		name, names = section+"."+in.key, keysIn(section)
	}
	key, ok := keyNamed(name)
	ok = ok && key.section() == section
	e := entry{key: key, at: in.at}
	switch {
	case !ok:
		p.add(in.at, "%s", unknown(in.key, names))
	case key.kind == oneValue:
		v, good := p.scalar(in.value, in.at, cmp.Or(key.example, ui.OrList(key.words)))
		e.values, ok = []value{v}, good
	case key.kind == aList:
		e.values, ok = p.list(in.value, in.at, key.example)
	case key.kind == aMap:
		e.types = p.types(in)
	default:
		e.rules, ok = p.rules(key, in)
	}
	if !ok {
		return entries
	}
	return append(entries, e)
}

// scalar returns the text of a node that must hold one value.
func (p *configParser) scalar(n ast.Node, under origin, example string) (value, bool) {
	at := under.or(p.place(n))
	switch n := n.(type) {
	case *ast.StringNode:
		return value{n.Value, at}, true
	case *ast.LiteralNode:
		return value{strings.TrimSpace(n.Value.Value), at}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return value{n.GetToken().Value, at}, true
	}
	p.add(at, "%s; want one value, as in %s", described(n), example)
	return value{}, false
}

// list returns the values of a node that must hold a list of texts.
func (p *configParser) list(n ast.Node, under origin, example string) ([]value, bool) {
	items, ok := p.items(n, under, example)
	values, good := make([]value, 0, len(items)), ok
	for i, item := range items {
		v, ok := p.scalar(item, under.index(i), example)
		values, good = append(values, v), good && ok
	}
	return values, good
}

func (p origin) index(i int) origin {
	p.Path += fmt.Sprintf("[%d]", i)
	return p
}

func (p *configParser) items(n ast.Node, under origin, example string) ([]ast.Node, bool) {
	if seq, ok := n.(*ast.SequenceNode); ok {
		return seq.Values, true
	}
	p.add(under.or(p.place(n)), "%s; want a list, as in ['%s'], or lines that begin with -", described(n), example)
	return nil, false
}

// described returns a description of a node's content, for a problem's text.
func described(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "there is no value"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "there are keys and values"
	case *ast.SequenceNode:
		return "there is a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return fmt.Sprintf("text that begins with %s needs quotes (anchors, aliases and tags of YAML are not understood here)", n.GetToken().Value[:1])
	default:
		return fmt.Sprintf("there is %q", n.GetToken().Value)
	}
}
