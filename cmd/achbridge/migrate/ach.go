package migrate

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"

	"achbridge/localach"
)

// ach translates a call of ach, which makes, removes and describes channels.
func (t *translation) ach(args []word, line string, at where) {
	p := parseFlags(args, "mnopCUDF", "1tkuav")
	why := cmp.Or(p.why, p.bad, at.why)
	if p.flags['V'] || p.flags['?'] || p.flags['h'] || p.flags['H'] || len(p.rest) == 0 && p.why == "" {
		return
	}
	if len(p.rest) == 0 {
		t.leave(line, why, "")
		return
	}
	n := note{line: line}
	say := func(format string, args ...any) { n.says = append(n.says, clean(fmt.Sprintf(format, args...))) }
	name := p.rest[len(p.rest)-1]
	switch p.rest[0] {
	case "mk", "make", "create":
		n.made = name
		text, wrong := create(p)
		if why == "" {
			why = wrong
		}
		if text != "" {
			say("%s", text)
		}
		if p.flags['1'] {
			say("-1: achbridge says that a channel is there already, with exit code 1; let the script go on")
		}
	case "rm", "remove", "unlink":
		say("achbridge channel rm %s", name)
	case "chmod":
		say("achbridge channel create has --mode MODE; of a channel that is there: chmod MODE /dev/shm/achshm-%s", name)
	case "search":
		say("achbridge ls shows the channels of all hosts")
	case "adv", "advertise", "hide", "unadv", "unadvertise":
		say("nothing takes its place: hosts find each other by themselves")
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
		if o.line == n.line {
			return
		}
	}
	t.channels = append(t.channels, n)
}

// create returns the command line that makes the same channel as ach mk.
func create(p flags) (text, wrong string) {
	if len(p.rest) != 2 {
		return "", "ach mk wants one channel"
	}
	name, frames, size := p.rest[1], "16", "512"
	if m, ok := p.values['m']; ok {
		frames = m
	}
	if n, ok := p.values['n']; ok {
		size = n
	}
	text = "achbridge channel create " + name + " --frames " + frames + " --size " + size
	if mode, ok := p.values['o']; ok {
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil || bits == 0 || fs.FileMode(bits) > fs.ModePerm {
			wrong = "-o wants octal permissions, as in 666"
		} else {
			mode = fmt.Sprintf("%04o", bits)
		}
		text += " --mode " + mode
	}
	if p.flags['t'] {
		text += " --replace"
	}
	if p.why != "" {
		return text, wrong
	}
	if p.flags['k'] {
		return "", "channels in the kernel (-k) are not for achbridge"
	}
	count, err1 := strconv.Atoi(frames)
	each, err2 := strconv.Atoi(size)
	switch g := (localach.Geometry{FrameCount: count, FrameSize: each}); {
	case localach.CheckName(name) != nil:
		return text, fmt.Sprintf("%q is not the name of a channel", name)
	case err1 != nil || err2 != nil:
		return text, "-m and -n want numbers"
	case g.Check() != nil:
		return text, g.Check().Error()
	}
	return text, wrong
}
