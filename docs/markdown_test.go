package docs_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is one thing that a reader of a document does: run a command line on a host, or
// write a file.
type step struct {
	at     string   // FILE:LINE
	host   string   // "": this machine, in the repository; "lab": the prompt of a lab
	line   string   // what is typed; "" for a file
	output []string // documented output; nil means none
	file   string   // the name of a file that is to be written, below the home of its host
	text   string
}

// prompt matches a command of a console block: HOST$, or $ for this machine.
var prompt = regexp.MustCompile(`^([a-z]*)\$ +(.*)$`)

// fileLine matches the first line of a YAML or server configuration block that is to be written to
// the named file.
var fileLine = regexp.MustCompile(`^# ((?:~/)?\S+\.(?:yaml|conf))(?: on ([a-z]+))?$`)

// sourceLine matches the first line of a C or protobuf block that is to be written to the named file.
var sourceLine = regexp.MustCompile(`^// (\S+\.(?:[ch]|proto))$`)

// stepsOf reads the steps of a document: blocks of sh, console, and YAML with a name.
func stepsOf(t *testing.T, path string) (list []step) {
	t.Helper()
	for _, b := range blocksOf(t, path) {
		switch b.language {
		case "sh":
			list = append(list, shellSteps(b)...)
		case "console":
			list = append(list, consoleSteps(t, b)...)
		case "yaml", "conf":
			if m := fileLine.FindStringSubmatch(b.lines[0]); m != nil {
				list = append(list, step{at: b.at(0), host: m[2], file: strings.TrimPrefix(m[1], "~/"), text: strings.Join(b.lines, "\n") + "\n"})
			}
		case "c", "proto":
			if m := sourceLine.FindStringSubmatch(b.lines[0]); m != nil {
				list = append(list, step{at: b.at(0), file: m[1], text: strings.Join(b.lines, "\n") + "\n"})
			}
		case "", "text", "go", "json": // not commands
		default:
			t.Errorf("%s: a block of %q: want sh, console, yaml, conf, text, go, c, proto or json", b.at(0), b.language)
		}
	}
	return list
}

// shellSteps returns the lines of a sh block. They may end with a comment, which the shell ignores.
func shellSteps(b block) (list []step) {
	for i := 0; i < len(b.lines); i++ {
		at, line := b.at(i), strings.TrimSpace(b.lines[i])
		for strings.HasSuffix(line, `\`) && i+1 < len(b.lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(b.lines[i])
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, step{at: at, line: asRoot.ReplaceAllString(line, "")})
		}
	}
	return list
}

func consoleSteps(t *testing.T, b block) (list []step) {
	for i, line := range b.lines {
		switch m := prompt.FindStringSubmatch(line); {
		case m != nil:
			list = append(list, step{at: b.at(i), host: m[1], line: m[2]})
		case len(list) == 0:
			t.Errorf("%s: a console block begins with output", b.at(i))
		case strings.TrimSpace(line) != "":
			last := &list[len(list)-1]
			last.output = append(last.output, line)
		}
	}
	return list
}

// block is a fenced block of a document.
type block struct {
	path     string
	first    int // line number of its first line
	language string
	lines    []string
}

func (b block) at(i int) string { return filepath.Base(b.path) + ":" + itoa(b.first+i) }

func blocksOf(t *testing.T, path string) (list []block) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, open, n := bufio.NewScanner(file), false, 0
	for lines.Scan() {
		n++
		line := lines.Text()
		switch rest, fence := strings.CutPrefix(line, "```"); {
		case fence && open:
			open = false
		case fence:
			open = true
			list = append(list, block{path: path, first: n + 1, language: strings.TrimSpace(rest)})
		case open:
			b := &list[len(list)-1]
			b.lines = append(b.lines, line)
		}
	}
	if open {
		t.Errorf("%s: the last block has no end", path)
	}
	return slices.DeleteFunc(list, func(b block) bool { return len(b.lines) == 0 })
}

// prose returns a document without its blocks.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(text), "")
}
