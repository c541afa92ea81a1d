package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/logline"
)

// Terminal prints the output of a command. Its rules:
//
//   - Requested data goes to stdout. Errors, notes and logs go to stderr, so
//     that a pipe carries data only.
//   - Tables have one header line in capitals, columns two spaces apart, "-"
//     in empty cells, and no drawn lines. Single objects are "key: value".
//   - --json prints the same facts for programs, as one document. Commands that
//     run until they are stopped print one object a line.
//   - An error is "achbridge: thing: cause", then, indented, the fix: a
//     command to type or a sentence.
//   - A command that changed something reports in one line what it did.
//   - Colour emphasizes, but is never the only sign: bold header, red
//     error. It is used only on a terminal, never if NO_COLOR is set or TERM is dumb.
//   - After an error of stdout, nothing more is printed there, and each further
//     call returns that error. So only the last result of several calls matters, see Broken.
type Terminal struct {
	Out, Err io.Writer
	Color    Color // Out shows colours
	errColor Color
	detached *logline.Writer // the writer of Err after Detach; nil before
	broken   error           // the first error of Out
	// Width is the maximum width of tables in columns. 0 means the width of the screen, and no limit if Out is not a
	// terminal.
	Width int
}

// New returns a Terminal that prints to two files. It uses colours if the file is a terminal and the environment permits
// them.
func New(out, err *os.File) *Terminal {
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &Terminal{
		Out: out, Color: Color(!plain && IsTerminal(out)),
		Err: err, errColor: Color(!plain && IsTerminal(err)),
	}
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Detach makes writes to stderr non-blocking: for the log, for libraries, and for the last error. A pipe without a
// reader does not end the process. Go writes the text of a panic itself, without this writer.
func (u *Terminal) Detach() {
	u.detached = logline.New(u.Err)
	u.Err = u.detached
	log.SetOutput(u.Err)
	signal.Ignore(syscall.SIGPIPE)
}

// lastWords is how long the process waits, before it exits, for the reader of stderr.
const lastWords = time.Second

// Flush waits, at most for lastWords, until everything printed after Detach has been written.
func (u *Terminal) Flush() {
	if u.detached != nil {
		u.detached.Flush(lastWords)
	}
}

// Fields prints "key: value" lines to stdout. pairs alternates keys and values; a pair with an empty value is omitted.
func (u *Terminal) Fields(pairs ...string) error {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", pairs[i], pairs[i+1])
		}
	}
	_ = w.Flush() // writing into memory cannot fail
	return u.print(out.String())
}

// print prints text to stdout, unless an earlier print has failed.
func (u *Terminal) print(text string) error {
	if u.broken == nil {
		_, u.broken = io.WriteString(u.Out, text)
	}
	return u.broken
}

// Broken returns the first error of stdout, nil if there was none.
func (u *Terminal) Broken() error { return u.broken }

// Repaint prints the output of show. On a terminal with colours it replaces the previous output; otherwise it prints a
// blank line in between. before is the number of earlier calls.
func (u *Terminal) Repaint(before int, show func(*Terminal) error) error {
	var buf bytes.Buffer
	if u.Color {
		buf.WriteString("\x1b[H\x1b[2J")
	} else if before > 0 {
		buf.WriteByte('\n')
	}
	page := *u
	page.Out, page.Width = &buf, u.Columns()
	if err := show(&page); err != nil {
		return err
	}
	return u.print(buf.String())
}

// Wrap breaks a text between words at the width of the terminal. It indents further lines by indent columns, which is
// also where the first line begins. If stdout is not a terminal, the text stays one line.
func (u *Terminal) Wrap(indent int, text string) string { return u.wrap(0, indent, text) }

// Hang breaks a text as Wrap does, but its first line begins at the left edge.
func (u *Terminal) Hang(indent int, text string) string { return u.wrap(-indent, indent, text) }

func (u *Terminal) wrap(used, indent int, text string) string {
	if !u.Wraps() {
		return text
	}
	return broken(text, used, indent, u.Columns())
}

// Wraps reports whether Wrap breaks long lines: stdout is a terminal.
func (u *Terminal) Wraps() bool { return u.Columns() != 0 }

// Columns returns Width if that is set, otherwise the width of the screen, or 0 if Out is not a terminal.
func (u *Terminal) Columns() int {
	if u.Width != 0 {
		return u.Width
	}
	out, ok := u.Out.(*os.File)
	if !ok || !IsTerminal(out) {
		return 0
	}
	width, _ := ScreenSize(out)
	return width
}

// broken returns text in lines of width columns. The first line begins after used columns; the others are indented.
func broken(text string, used, indent, width int) string {
	lines := Wrap(words(text), used, max(width-indent, 20))
	return strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", indent))
}

// Line prints one line to stdout.
func (u *Terminal) Line(format string, args ...any) error {
	return u.print(fmt.Sprintf(format+"\n", args...))
}

// JSON prints v as one indented document.
func (u *Terminal) JSON(v any) error { return u.json(v, "  ") }

// JSONLine prints v as one line.
func (u *Terminal) JSONLine(v any) error { return u.json(v, "") }

func (u *Terminal) json(v any, indent string) error {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return u.print(out.String())
}

// Note prints a remark to stderr, apart from the data.
func (u *Terminal) Note(format string, args ...any) {
	fmt.Fprintf(u.Err, "achbridge: "+format+"\n", args...)
}

// Fail prints an error and its fix. Each of several problems has its own line.
func (u *Terminal) Fail(err error) {
	fix := Fix(err)
	name := u.errColor.Paint("31", "achbridge:")
	for text := range strings.Lines(err.Error()) {
		text = strings.TrimPrefix(strings.TrimRight(text, "\n"), "achbridge: ")
		fmt.Fprintln(u.Err, name, text)
	}
	if fix != "" {
		fmt.Fprintln(u.Err, "  fix:", fix)
	}
}

// Excerpt prints a line of a file to stderr, with a mark under one of its columns. Lines and columns are counted from 1.
func (u *Terminal) Excerpt(number int, line string, column int) {
	line = strings.TrimRight(line, "\r")
	before := []rune(line)[:max(0, min(column-1, len([]rune(line))))]
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	fmt.Fprintf(u.Err, "%5d | %s\n      | %s%s\n", number, line, string(before), u.errColor.Paint("31", "^"))
}

// Color reports whether text is displayed in colours.
type Color bool

// Paint gives text a colour, by its ECMA-48 code.
func (c Color) Paint(code, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
