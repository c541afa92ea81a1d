package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"achbridge/cmd/achbridge/ui"
)

// origin is where a setting is written. The zero origin means the default.
type origin struct {
	Source string `json:"source,omitempty"` // a file, a flag as in --name, or an environment variable
	Line   int    `json:"line,omitempty"`   // line of the file, from 1
	Column int    `json:"column,omitempty"` // in characters, from 1
	Path   string `json:"path,omitempty"`   // path of the key, as in mirror[0].budget
}

// String returns FILE:LINE, a flag or an environment variable.
func (p origin) String() string {
	switch {
	case p.Source == "":
		return "default"
	case p.Line == 0:
		return p.Source
	}
	return fmt.Sprintf("%s:%d", p.Source, p.Line)
}

// at returns the place of a key below p.
func (p origin) at(key string) origin {
	p.Path = strings.TrimPrefix(p.Path+"."+key, ".")
	return p
}

// problem is one error in the configuration. Its text describes what is wanted instead.
type problem struct {
	origin
	Text string `json:"problem"`
}

func (p problem) Error() string {
	where := p.Source
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
	}
	path := p.Path
	if p.Line == 0 && p.Source != "" && !strings.ContainsAny(path, "[.") {
		path = "" // the name of the flag or variable says the same
	}
	list := slices.DeleteFunc([]string{where, path, p.Text}, func(s string) bool { return s == "" })
	return strings.Join(list, ": ")
}

// Problems holds all errors in a configuration, in the order of the file.
type Problems []problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) add(at origin, format string, args ...any) {
	*ps = append(*ps, problem{at, fmt.Sprintf(format, args...)})
}

// err returns nil when there are no problems.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}

// unknown returns the text for a key that is not one of words. It suggests a similar key.
func unknown(word string, words []string) string {
	if word == "watch" {
		return "it no longer exists, since the daemon no longer polls without pause; remove it"
	}
	if near := ui.Nearest(strings.ReplaceAll(word, "-", "_"), words); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key; the keys are " + ui.AndList(words)
}
