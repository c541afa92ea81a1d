package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// The rules of the terminal:
//
//   - What was asked for goes to stdout; everything said about it (errors,
//     notes, logs) goes to stderr, so that a pipe carries data only.
//   - Tables have one header line in capitals, columns two spaces apart, "-"
//     where there is nothing, no lines drawn. Single things are "key: value".
//   - --json prints the same facts for programs, one document; verbs that go
//     on for ever print one object a line.
//   - An error is "achbridge: thing: cause", then, indented, the cure: a
//     command to type or a sentence.
//   - A verb that changed something and worked says nothing, unless there is
//     something the person could not know.
//   - Colour marks, it never tells: bold header, red error. Only on a
//     terminal, never when NO_COLOR is set or TERM is dumb.
type ui struct {
	out, err io.Writer
	outColor bool
	errColor bool
}

func newUI(out, err *os.File) *ui {
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &ui{
		out: out, outColor: !plain && isTerminal(out),
		err: err, errColor: !plain && isTerminal(err),
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// table prints rows under header to stdout. Empty cells become "-".
func (u *ui) table(header []string, rows [][]string) error {
	var buf bytes.Buffer
	w := tabwriter.NewWriter(&buf, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(cell, "-")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	head, rest, _ := strings.Cut(buf.String(), "\n")
	_, err := fmt.Fprintf(u.out, "%s\n%s", paint(u.outColor, "1", head), rest)
	return err
}

// fields prints "key: value" lines to stdout; pairs alternates keys and
// values, an empty value leaves its line out.
func (u *ui) fields(pairs ...string) error {
	w := tabwriter.NewWriter(u.out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", pairs[i], pairs[i+1])
		}
	}
	return w.Flush()
}

// again prints what show prints, in the place of what it printed before where
// stdout is a terminal that may be painted; else a blank line goes between them.
func (u *ui) again(before int, show func(*ui) error) error {
	var buf bytes.Buffer
	if u.outColor {
		buf.WriteString("\x1b[H\x1b[2J")
	} else if before > 0 {
		buf.WriteByte('\n')
	}
	page := *u
	page.out = &buf
	if err := show(&page); err != nil {
		return err
	}
	_, err := u.out.Write(buf.Bytes())
	return err
}

// wrap breaks a text that begins so many columns from the left between its words, where
// a terminal ends, and indents its further lines as much. For anything but a terminal it
// stays one line.
func (u *ui) wrap(indent int, text string) string {
	out, ok := u.out.(*os.File)
	if !ok || !isTerminal(out) {
		return text
	}
	width, _ := sizeOf(out)
	return indented(indent, width, text)
}

func indented(indent, width int, text string) string {
	lines := wrapped(strings.Fields(text), 0, max(width-indent, 20))
	return strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", indent))
}

// line prints one line to stdout.
func (u *ui) line(format string, args ...any) error {
	_, err := fmt.Fprintf(u.out, format+"\n", args...)
	return err
}

// json prints v as one indented document.
func (u *ui) json(v any) error {
	enc := json.NewEncoder(u.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonLine prints v as one line.
func (u *ui) jsonLine(v any) error {
	enc := json.NewEncoder(u.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// note says something beside the data, on stderr.
func (u *ui) note(format string, args ...any) {
	fmt.Fprintf(u.err, "achbridge: "+format+"\n", args...)
}

// fail prints an error and its cure. Of several problems each has its line.
func (u *ui) fail(err error) {
	cure := cureIn(err)
	name := paint(u.errColor, "31", "achbridge:")
	for text := range strings.Lines(err.Error()) {
		text = strings.TrimPrefix(strings.TrimRight(text, "\n"), "achbridge: ")
		fmt.Fprintln(u.err, name, text)
	}
	if cure != "" {
		fmt.Fprintln(u.err, "  cure:", cure)
	}
}

// problems prints mistakes in a file, whose lines are given, each under its
// place with the line that it is on.
func (u *ui) problems(list []problem, lines []string) {
	for _, p := range list {
		u.fail(p)
		if p.Line < 1 || p.Line > len(lines) {
			continue
		}
		line := strings.TrimRight(lines[p.Line-1], "\r")
		before := []rune(line)[:max(0, min(p.Column-1, len([]rune(line))))]
		for i, r := range before {
			if r != '\t' {
				before[i] = ' '
			}
		}
		fmt.Fprintf(u.err, "%5d | %s\n      | %s%s\n", p.Line, line, string(before), paint(u.errColor, "31", "^"))
	}
}

func paint(on bool, code, text string) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// bytesText prints a size as it is written in a command line: exact, with the
// largest binary unit that divides it.
func bytesText(n int) string {
	for _, unit := range sizeUnits {
		if unit.bytes > 1 && n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// aboutBytes prints a size as people compare sizes, with three figures.
func aboutBytes[N int | int64](n N) string {
	for _, unit := range sizeUnits {
		if unit.bytes > 1 && n >= N(unit.bytes) {
			v, figures := float64(n)/float64(unit.bytes), 3
			if v >= 999.5 {
				figures = 4
			}
			return fmt.Sprintf("%.*g %s", figures, v, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// sizeRange is one size, or from which to which.
func sizeRange(least, most int) string {
	if least == most {
		return bytesText(least)
	}
	return bytesText(least) + " to " + bytesText(most)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
