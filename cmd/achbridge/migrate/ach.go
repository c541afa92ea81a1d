package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// leastArguments is the least number of arguments of ach's commands: the name of a channel, and permissions before it for chmod.
var leastArguments = map[string]int{"rm": 1, "remove": 1, "unlink": 1, "chmod": 2, "dump": 1, "file": 1}

// ach translates a call of ach, which makes, removes and describes channels.
func (t *translation) ach(args []word, line string, at where) {
	p := parseFlags(args, "mnopCUDF", "1tkuav")
	p.rest = append(formerCommand(p), p.rest...)
	why := cmp.Or(p.why, p.bad, at.why)
	if p.flags['V'] || p.flags['?'] || p.flags['h'] || p.flags['H'] || len(p.rest) == 0 && p.why == "" {
		return
	}
	if len(p.rest) == 0 {
		t.leave(line, why, "")
		return
	}
	if least, known := leastArguments[p.rest[0]]; known && len(p.rest) <= least {
		t.leave(line, cmp.Or(why, "ach "+p.rest[0]+" lacks arguments"), "")
		return
	}
	n := note{line: line}
	say := func(format string, args ...any) { n.says = append(n.says, clean(fmt.Sprintf(format, args...))) }
	name := p.rest[len(p.rest)-1]
	switch p.rest[0] {
	case "mk", "make", "create":
		if t.create(p, why, line) {
			return
		}
		_, _, wrong := channelOf(p)
		n.entry, why = entryOf(p), cmp.Or(why, wrong)
	case "rm", "remove", "unlink":
		say("achbridge channel rm %s", name)
	case "chmod":
		if why == "" && len(p.rest) == 3 && t.setMode(name, p.rest[1], line) {
			return
		}
		say("chmod %s /dev/shm/achshm-%s", p.rest[1], name)
	case "search":
		say("achbridge ls shows the channels of all hosts")
	case "adv", "advertise", "hide", "unadv", "unadvertise":
		say("leave it out: the daemon announces its host, and hosts find each other's channels")
	case "dump":
		say("achbridge channel info %s", name)
	case "file":
		say("/dev/shm/achshm-%s", name)
	default:
		why = cmp.Or(why, "ach has no such command")
	}
	if why != "" {
		n.says = append([]string{why}, n.says...)
	}
	for _, o := range t.channels {
		if o.line == n.line && slices.Equal(o.says, n.says) {
			return
		}
	}
	t.channels = append(t.channels, n)
}

// formerCommand returns the command, with its arguments, that is written with former flags of ach, as in ach -C imu. It returns nil
// if there are no such flags.
func formerCommand(p flags) []string {
	for flag, command := range map[byte]string{'C': "mk", 'U': "rm", 'D': "dump", 'F': "file"} {
		if name, ok := p.values[flag]; ok {
			return []string{command, name}
		}
	}
	return nil
}

// create adds the channel of an ach mk command to the configuration. why is the reason why it is not sure that the command runs, or
// "". create returns false if there is such a reason, or if the daemon cannot create the channel.
func (t *translation) create(p flags, why, line string) bool {
	rule, notes, wrong := channelOf(p)
	if cmp.Or(why, wrong) != "" {
		return false
	}
	e := entry{rule: rule, made: p.rest[1], lines: []string{line}, notes: notes}
	for i := range t.created {
		earlier := &t.created[i]
		switch {
		case earlier.made != e.made:
		case earlier.rule == e.rule:
			if !slices.Contains(earlier.lines, line) {
				earlier.lines = append(earlier.lines, line)
			}
			return true
		default:
			t.leave(line, "an earlier line creates "+e.made+" with other options", entryOf(p))
			return true
		}
	}
	t.created = append(t.created, e)
	return true
}

// setMode adds the permissions of an ach chmod command to the entry of its channel. It returns false if there is no such entry, or
// if the entry cannot have these permissions.
func (t *translation) setMode(name, mode, line string) bool {
	i := slices.IndexFunc(t.created, func(e entry) bool { return e.made == name })
	bits, err := rule.ParseFileMode(mode)
	if i < 0 || err != nil || strings.Contains(t.created[i].rule, ",mode=") {
		return false
	}
	t.created[i].rule += ",mode=" + bits.String()
	t.created[i].lines = append(t.created[i].lines, line)
	return true
}

// channelOf returns the entry of channels that replaces an ach mk command. notes name the options that the entry does not have.
// wrong is the reason why there is no such entry, or "".
func channelOf(p flags) (text string, notes []string, wrong string) {
	if len(p.rest) != 2 {
		return "", nil, "ach mk needs one channel"
	}
	if p.flags['k'] {
		return "", nil, "-k: keep this line, since the daemon creates no kernel channels; kernel: true exports them"
	}
	name, frames, size := p.rest[1], "16", "512"
	if m, ok := p.values['m']; ok {
		frames = m
	}
	if n, ok := p.values['n']; ok {
		size = n
	}
	text = name + ",frames=" + frames + ",size=" + size
	count, err1 := strconv.Atoi(frames)
	each, err2 := strconv.Atoi(size)
	g := localach.Geometry{FrameCount: count, FrameSize: each}
	switch {
	case localach.CheckName(name) != nil:
		wrong = fmt.Sprintf("%q is not the name of a channel", name)
	case err1 != nil || err2 != nil:
		wrong = "-m and -n need numbers"
	case g.Check() != nil:
		wrong = g.Check().Error()
	}
	if mode, ok := p.values['o']; ok {
		bits, err := rule.ParseFileMode(mode)
		if err != nil {
			wrong = cmp.Or(wrong, "-o "+err.Error())
			return text, nil, wrong
		}
		text += ",mode=" + bits.String()
	}
	if p.flags['t'] {
		notes = append(notes, "-t: the daemon leaves an existing channel as it is")
	}
	if p.flags['a'] || p.values['p'] != "" {
		notes = append(notes, "-a, -p: not needed: hosts discover each other and their channels")
	}
	return text, notes, wrong
}

// entryOf returns the configuration line that would replace an ach mk command, or "". The user must decide whether it applies.
func entryOf(p flags) string {
	text, _, _ := channelOf(p)
	if text == "" {
		return ""
	}
	return "channels: [" + quoted(clean(text)) + "]"
}
