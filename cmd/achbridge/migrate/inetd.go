package migrate

import (
	"strconv"
	"strings"
)

// service is a line that starts achd for those who connect.
type service struct {
	line string
	port string // as it is written; empty: achd's
	from string // only_from of xinetd
}

var (
	inetdLine = expression(`([\w.:-]+)\s+stream\s+tcp\w*\s+nowait\S*\s+\S+\s+[^\n]*?\bachd\b[^\n]*?\bserve\b`)
	inetdFile = expression(`(?m)^[\t ]*[\w.:-]+[\t ]+stream[\t ]+tcp\w*[\t ]+nowait\S*[\t ]+\S+[\t ]+[^\n]*\bachd\b[^\n]*$`)
	xinetd    = expression(`(?m)^[\t ]*service\s+(\S+)\s*\{[^}]*\}`)
	setting   = expression(`(?m)^\s*(\w+)\s*[+-]?=[\t ]*(.*?)[\t ]*$`)
	listens   = expression(`(?i)(?:LISTEN:|-p\s*|-l\w*p\s*)(\d+)`)
	served    = expression(`\bachd\b[^;&|]*\bserve\b`)
	cron      = expression(`(?m)^[\t ]*(?:@(?:reboot|hourly|daily|midnight|weekly|monthly|yearly|annually)|[\d*][\d*/,-]*(?:[\t ]+[\w*/,-]+){4})[\t ]+`)
)

// A unit of systemd, and what it starts.
var (
	unit     = expression(`(?m)^\[Service\][\t ]*$`)
	starting = expression(`^Exec\w+=[-@:+!]*`)
)

// servers handles the lines of a script that are for inetd, xinetd and cron. It returns the other
// lines, which are for the shell, at the same line numbers.
func (t *translation) servers(script string) string {
	lineOf := func(at int) int { return 1 + strings.Count(script[:at], "\n") }
	for _, at := range inetdFile().FindAllStringIndex(script, -1) {
		if s, ok := serverIn(script[at[0]:at[1]]); ok {
			s.line = shown(lineOf(at[0]), script[at[0]:at[1]])
			t.serve(s)
		}
	}
	for _, at := range xinetd().FindAllStringSubmatchIndex(script, -1) {
		if block := script[at[0]:at[1]]; strings.Contains(block, "achd") {
			name := script[at[2]:at[3]]
			t.xinetd(block, name, shown(lineOf(at[2]), "service "+name+" { … }"))
		}
	}
	return without(script)
}

// without returns a script without the texts for inetd, xinetd, cron and systemd.
func without(script string) string {
	same := func(text string) string { // as many bytes, so that places stay
		b := []byte(text)
		for i := range b {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
		return string(b)
	}
	script = inetdFile().ReplaceAllStringFunc(script, same)
	script = xinetd().ReplaceAllStringFunc(script, func(block string) string {
		if !strings.Contains(block, "achd") {
			return block
		}
		return same(block)
	})
	lines := strings.SplitAfter(script, "\n")
	ofUnit, goesOn := unit().MatchString(script), false
	for i, line := range lines {
		if ofUnit && !goesOn {
			at := starting().FindString(line)
			if line = same(at) + line[len(at):]; at == "" {
				line = same(line)
			}
			lines[i] = line
		}
		goesOn = strings.HasSuffix(line, "\\\n")
		if at := cron().FindStringIndex(line); at != nil {
			lines[i] = withoutUser(same(line[:at[1]]), line[at[1]:])
		}
	}
	return strings.Join(lines, "")
}

// withoutUser removes the user from a line of /etc/crontab.
func withoutUser(before, command string) string {
	words := strings.Fields(command)
	if len(words) < 2 || strings.Contains(words[0], "/") || !starts(words[1]) || starts(words[0]) && words[0] != "ach" || isIgnored(words[0]) || endsOthers(words[0]) {
		return before + command
	}
	return before + strings.Repeat(" ", len(words[0])) + strings.TrimPrefix(command, words[0])
}

// starts reports whether a word is a program that migrate knows.
func starts(text string) bool {
	program := base(text)
	_, starter := starters[program]
	return starter || isOfAch(word{text: text}) || program == "su" || strings.HasSuffix(program, "sh")
}

// serverIn finds achd serve in a text, and its port.
func serverIn(text string) (s service, ok bool) {
	if m := inetdLine().FindStringSubmatch(text); m != nil {
		s.port = m[1][strings.LastIndexByte(m[1], ':')+1:]
		return s, true
	}
	if !served().MatchString(text) {
		return s, false
	}
	if m := listens().FindStringSubmatch(text); m != nil {
		s.port = m[1]
	}
	return s, true
}

// xinetd translates a service of xinetd.
func (t *translation) xinetd(block, name, line string) {
	values := map[string]string{}
	for _, m := range setting().FindAllStringSubmatch(block, -1) {
		values[strings.ToLower(m[1])] = m[2]
	}
	switch {
	case strings.EqualFold(values["disable"], "yes"):
		t.leave(line, "it is switched off (disable = yes)", "")
	case !strings.Contains(values["server"]+" "+values["server_args"], "serve"):
		t.leave(line, "it does not run achd serve", "")
	default:
		s := service{line: line, port: name, from: values["only_from"]}
		if p := values["port"]; p != "" {
			s.port = p
		}
		t.serve(s)
	}
}

// serve notes a service. A port that is a name is one of /etc/services: achd's.
func (t *translation) serve(s service) {
	if n, err := strconv.ParseUint(s.port, 10, 16); err != nil || n == 0 {
		s.port = ""
	}
	for _, o := range t.services {
		if o.line == s.line {
			return
		}
	}
	t.services = append(t.services, s)
}
