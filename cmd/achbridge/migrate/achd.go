package migrate

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// request is a pull or a push that achbridge can do.
type request struct {
	push          bool
	host          string // as rules name it
	peer          string // as achd was given it
	local, remote string // channel here and there
	every         bool
	rate          string // frames a second at most; empty: any
	notes         []string
}

// rule returns the wish as an entry of the configuration.
func (w request) rule() string {
	text := w.local + " " + w.host
	switch {
	case !w.push && w.local == w.host+"."+w.remote:
		text = w.host + "/" + w.remote
	case !w.push:
		text = w.host + "/" + w.remote + ",as=" + w.local
	case w.local != w.remote:
		text += "/" + w.remote
	}
	if w.every {
		text += ",mode=every"
	}
	if w.rate != "" {
		text += ",max_rate=" + w.rate
	}
	return text
}

// entry returns the configuration line of the wish, for a person who knows that it applies.
func (w request) entry() string {
	if w.push {
		return "push: [" + quoted(clean(w.rule())) + "]"
	}
	return "mirror: [" + quoted(clean(w.rule())) + "]"
}

// achd translates a call of achd.
func (t *translation) achd(args []word, line string, at where) {
	p := parseFlags(args, "ptzuf", "lrdqv")
	why := p.why
	if p.flags['V'] || p.flags['?'] || p.flags['h'] || p.flags['H'] {
		return // it shows its version or help
	}
	command := ""
	if len(p.rest) > 0 {
		command = p.rest[0]
	}
	switch {
	case command == "serve" && len(p.rest) == 1:
		t.serve(service{line: line, port: p.values['p']})
		return
	case why == "" && p.bad != "":
		t.leave(line, p.bad, "")
		return
	case command != "pull" && command != "push":
		t.leave(line, cmp.Or(why, "achd wants pull, push or serve"), "")
		return
	case len(p.rest) == 2 && why == "":
		t.leave(line, "it names no host, and a rule needs one: put its name for HOST", requestOf(command == "push", "HOST", p.rest[1], p).entry())
		return
	case len(p.rest) != 3:
		t.leave(line, cmp.Or(why, "achd "+command+" wants HOST CHANNEL"), "")
		return
	}
	w := requestOf(command == "push", p.rest[1], p.rest[2], p)
	rateWhy := w.pace(p)
	if why == "" {
		why = cmp.Or(rateWhy, w.unfit())
	}
	if why = cmp.Or(why, at.why); why != "" {
		t.leave(line, why, w.entry())
		return
	}
	t.take(w, line)
}

func requestOf(push bool, host, channel string, p flags) request {
	w := request{push: push, host: host, peer: host, local: channel, remote: channel}
	if z, ok := p.values['z']; ok {
		w.remote = z
	}
	if short, _, dotted := strings.Cut(host, "."); dotted && !isAddress(host) {
		w.host = short
	}
	if isAddress(host) || host == "localhost" {
		w.host = "NAME"
	}
	if _, paced := p.values['u']; !paced && !p.flags['l'] && p.values['t'] != "udp" {
		w.every = true
	}
	if port, ok := p.values['p']; ok && port != "8076" {
		w.notes = append(w.notes, fmt.Sprintf("-p %s was achd's port; achbridge has its own, 8076. For another put %s:PORT below peers", clean(port), clean(host)))
	}
	return w
}

// pace sets the maximum rate that -u MICROSECONDS gives. It returns the problem with that value, or "".
func (w *request) pace(p flags) string {
	text, ok := p.values['u']
	if !ok {
		return ""
	}
	period, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return "-u wants microseconds"
	case period > 1e9:
		return "achbridge has no limit below one frame in 1000 s (-u)"
	case period > 0:
		w.rate = rule.Rate(math.Round(1e9 / float64(period))).String()
	}
	return ""
}

// hostName matches a valid host in a rule.
var hostName = expression(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

var peerName = expression(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9][A-Za-z0-9_-]{0,62}){0,3}$`)

// unfit returns the reason why the wish cannot become a rule, or "".
func (w request) unfit() string {
	switch a, err := netip.ParseAddr(w.peer); {
	case w.peer == "localhost" || err == nil && a.IsLoopback():
		return w.peer + " is this host, so this goes through a tunnel: put the name of the host at its other end for NAME"
	case err == nil:
		return "rules call hosts by their names: put the name of " + w.peer + " for NAME, and " + w.peer + " below peers"
	case !hostName().MatchString(w.host) || !peerName().MatchString(w.peer):
		return fmt.Sprintf("%q is not the name of a host", w.peer)
	}
	for _, channel := range []string{w.local, w.remote} {
		if err := localach.CheckName(channel); err != nil {
			return fmt.Sprintf("%q is not the name of a channel", channel)
		}
	}
	return ""
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// flags are the flags and arguments of a command line, as getopt reads them.
type flags struct {
	flags  map[byte]bool
	values map[byte]string
	rest   []string
	why    string // why a value is not known
	bad    string // what is wrong
}

// parseFlags reads the flags in valued, which have a value, and those in plain, which have none. Flags may be anywhere.
func parseFlags(args []word, valued, plain string) flags {
	f := flags{flags: map[byte]bool{}, values: map[byte]string{}}
	for i := 0; i < len(args); i++ {
		a := args[i]
		f.why = cmp.Or(f.why, a.why)
		if a.text == "--" {
			for _, a := range args[i+1:] {
				f.why = cmp.Or(f.why, a.why)
				f.rest = append(f.rest, a.text)
			}
			break
		}
		if len(a.text) < 2 || a.text[0] != '-' {
			f.rest = append(f.rest, a.text)
			continue
		}
		for j := 1; j < len(a.text); j++ {
			c := a.text[j]
			if strings.IndexByte(valued, c) < 0 {
				if f.flags[c] = true; strings.IndexByte(plain+"V?hH", c) < 0 && f.bad == "" {
					f.bad = "the flag " + strconv.Quote(a.text) + " is not known"
				}
				continue
			}
			value := a.text[j+1:]
			if value == "" {
				if i++; i == len(args) {
					f.bad = "-" + string(c) + " wants a value"
					break
				}
				value = args[i].text
				f.why = cmp.Or(f.why, args[i].why)
			}
			f.values[c] = value
			break
		}
	}
	return f
}
