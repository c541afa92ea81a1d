package migrate

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// word is an argument of a command. When why is set, only the shell knows its value, and
// text is as it is written.
type word struct{ text, why string }

// valuesOf returns the words to which the shell expands args. The value of an unquoted variable may be several words.
func (v *variables) valuesOf(args []*syntax.Word) (list []word) {
	for _, a := range args {
		if p, ok := onlyPart(a).(*syntax.ParamExp); ok {
			w := v.expansion(p)
			for _, field := range strings.Fields(w.text) {
				list = append(list, word{field, w.why})
			}
			continue
		}
		list = append(list, v.valueOf(a.Parts, false))
	}
	return list
}

// onlyPart returns the part of a word that has one part, or nil.
func onlyPart(w *syntax.Word) syntax.WordPart {
	if len(w.Parts) != 1 {
		return nil
	}
	return w.Parts[0]
}

// valueOf returns the value to which the shell expands parts of a word.
func (v *variables) valueOf(parts []syntax.WordPart, quoted bool) (w word) {
	for _, p := range parts {
		next := word{}
		switch p := p.(type) {
		case *syntax.Lit:
			next = literal(p.Value, quoted)
		case *syntax.SglQuoted:
			next.text = p.Value
			if p.Dollar && strings.Contains(p.Value, `\`) {
				next.why = `it has a text with escapes ($'…')`
			}
		case *syntax.DblQuoted:
			next = v.valueOf(p.Parts, true)
		case *syntax.ParamExp:
			next = v.expansion(p)
		case *syntax.CmdSubst, *syntax.ProcSubst:
			next = word{"…", "only the shell knows the output of a command in it"}
		case *syntax.ArithmExp:
			next = word{"…", "only the shell knows the result of a calculation in it"}
		default:
			next = word{"…", "only the shell knows which files a pattern in it means"}
		}
		w.text += next.text
		if w.why == "" {
			w.why = next.why
		}
	}
	return w
}

// literal returns raw without the backslashes that the shell removes.
func literal(raw string, quoted bool) word {
	var b strings.Builder
	why := ""
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '\\' && i+1 < len(raw) && raw[i+1] == '\n':
			i++
			continue
		case c == '\\' && i+1 < len(raw) && (!quoted || strings.IndexByte("$`\"\\", raw[i+1]) >= 0):
			i++
			c = raw[i]
		case !quoted && (c == '*' || c == '?' || c == '['):
			why = "only the shell knows which files a pattern in it means"
		}
		b.WriteByte(c)
	}
	return word{b.String(), why}
}

// clean returns text in a form that is safe in a comment.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

func base(program string) string { return path.Base(program) }

// shells run a script that they are given.
var shells = []string{"sh", "bash", "dash", "ksh", "zsh"}

// starters run the command behind them. Each has its options that take a value, and how many
// words of its own stand before the command.
var starters = map[string]struct {
	values string
	own    int
}{
	"sudo": {"ughpCRTDrt", 0}, "doas": {"uC", 0}, "runuser": {"ugG", 0},
	"nohup": {}, "setsid": {}, "exec": {"a", 0}, "command": {}, "builtin": {}, "time": {"fo", 0},
	"env": {"uCS", 0}, "nice": {"n", 0}, "ionice": {"cn", 0}, "chrt": {"TPD", 1}, "taskset": {"", 1},
	"timeout": {"sk", 1}, "stdbuf": {"ioe", 0}, "unbuffer": {}, "achcop": {"Ppoeif", 0},
	"screen": {"Stceshp", 0},
}

// skipStarters returns the index of the command that a command line finally runs.
func skipStarters(words []word) int {
	i := 0
	for i < len(words) {
		s, ok := starters[base(words[i].text)]
		asks := base(words[i].text) == "command" && i+1 < len(words) && strings.EqualFold(words[i+1].text, "-v")
		if words[i].why != "" || !ok || asks {
			return i
		}
		own := s.own
		for i++; i < len(words); i++ {
			w := words[i].text
			switch {
			case w == "--":
				continue
			case strings.HasPrefix(w, "--"):
				if w == "--user" || w == "--group" || w == "--adjustment" || w == "--signal" {
					i++
				}
				continue
			case strings.HasPrefix(w, "-") && len(w) > 1:
				if strings.IndexByte(s.values, w[len(w)-1]) >= 0 && !strings.ContainsAny(w[1:len(w)-1], s.values) {
					i++
				}
				continue
			case assignment().MatchString(w):
				continue
			case own > 0:
				own--
				continue
			}
			break
		}
	}
	return i
}

var assignment = expression(`^[A-Za-z_]\w*=`)

// scriptOf returns the script that a shell or su receives with -c.
func scriptOf(words []word) (script word, ok bool) {
	for i, w := range words {
		if w.why != "" || i+1 >= len(words) {
			continue
		}
		if w.text == "--command" || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c") {
			return words[i+1], true
		}
	}
	return word{}, false
}

// ofAch is a call of Ach's programs in a text.
var ofAch = expression(`(?:^|[^\w.$-])(?:achd|achcop|achlog|achcat|achpipe(?:\.bin)?|` +
	`ach(?:tool)? +(?:-\S+ +(?:\d+ +)?)*(?:mk|make|create|rm|remove|unlink|chmod|dump|file|search|adv|hide|-[1tkuav]*[CUDF] *\S+))(?:$|[^\w.=-])`)

func mentions(text string) bool { return ofAch().MatchString(text) }

// ignored are programs that only speak of others.
var ignored = []string{"echo", "printf", "logger", "which", "type", "whereis", "command", "grep", "pgrep", "pidof", "ps",
	"test", "[", "man", "cd", "mkdir", "export", "wall", "alias", ":", "true"}

func isIgnored(program string) bool { return slices.Contains(ignored, program) }

// expression returns a regular expression that is compiled at its first use: other commands
// need none of them.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
