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
	peer          string // entry of peers by which the host is dialled; empty if it runs achd, since rules then have its address
	local, remote string // channel here and there
	every         bool
	rate          string // frames a second at most; empty: any
	notes         []string
}

// rule returns the request as an entry of the configuration.
func (r request) rule() string {
	text := r.local + " " + r.host
	switch {
	case !r.push && r.local == r.host+"."+r.remote:
		text = r.host + "/" + r.remote
	case !r.push:
		text = r.host + "/" + r.remote + ",as=" + r.local
	case r.local != r.remote:
		text += "/" + r.remote
	}
	if r.every {
		text += ",mode=every"
	}
	if r.rate != "" {
		text += ",max_rate=" + r.rate
	}
	return text
}

// entry returns the request as a configuration line. It is for a comment, since only the user can decide whether the line applies.
func (r request) entry() string {
	if r.push {
		return "push: [" + quoted(clean(r.rule())) + "]"
	}
	return "mirror: [" + quoted(clean(r.rule())) + "]"
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
	push := command == "push"
	switch {
	case command == "serve" && len(p.rest) == 1:
		t.serve(service{line: line, port: p.values['p']})
		return
	case why == "" && p.bad != "":
		t.leave(line, p.bad, "")
		return
	case command != "pull" && command != "push":
		t.leave(line, cmp.Or(why, "achd needs pull, push or serve"), "")
		return
	case len(p.rest) == 2 && why == "":
		t.leave(line, "it names no host, and a rule needs one: replace HOST by its name", t.requestOf(push, "HOST", p.rest[1], p).entry())
		return
	case len(p.rest) != 3:
		t.leave(line, cmp.Or(why, "achd "+command+" needs HOST CHANNEL"), "")
		return
	}
	r := t.requestOf(push, p.rest[1], p.rest[2], p)
	rateWhy := r.pace(p)
	if why == "" {
		why = cmp.Or(rateWhy, r.unfit(p))
	}
	if why = cmp.Or(why, at.why); why != "" {
		t.leave(line, why, r.entry())
		return
	}
	t.take(r, line)
}

// requestOf returns the request of a call of achd. A host that the call names by its address is assumed to run achd, unless the user
// has given its name with --name.
func (t *translation) requestOf(push bool, host, channel string, p flags) request {
	r := request{push: push, host: host, peer: host, local: channel, remote: channel}
	if z, ok := p.values['z']; ok {
		r.remote = z
	}
	if _, paced := p.values['u']; !paced && !p.flags['l'] && p.values['t'] != "udp" {
		r.every = true
	}
	port := p.values['p']
	switch name, named := t.names[host]; {
	case named:
		r.host = name
	case isAddress(host) || host == "localhost":
		r.host, r.peer = achdHost(host, port, p.values['t'] == "udp"), ""
		return r
	default:
		if short, _, dotted := strings.Cut(host, "."); dotted {
			r.host = short
		}
	}
	if port != "" && port != achdPort {
		r.notes = append(r.notes, fmt.Sprintf("-p %s is achd's port. achbridge uses 8076; for another port write %s:PORT in peers", clean(port), clean(host)))
	}
	return r
}

// achdPort is achd's default port.
const achdPort = "8076"

// achdHost returns the host of a rule for a host that runs only achd, as in achd://10.0.0.7.
func achdHost(address, port string, udp bool) string {
	host := "achd://" + address
	if udp {
		host = "achd+udp://" + address
	}
	if port != "" && port != achdPort {
		host += ":" + port
	}
	return host
}

// pace sets the maximum rate that -u MICROSECONDS gives. It returns the problem with that value, or "".
func (r *request) pace(p flags) string {
	text, ok := p.values['u']
	if !ok {
		return ""
	}
	period, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return "-u needs microseconds"
	case period > 1e9:
		return "-u: achbridge limits rates to one frame in 1000 s or more"
	case period > 0:
		r.rate = rule.Rate(math.Round(1e9 / float64(period))).String()
	}
	return ""
}

// hostName matches a valid host in a rule.
var hostName = expression(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// IsHostName reports whether name is a host that a rule can name.
func IsHostName(name string) bool { return hostName().MatchString(name) }

var peerName = expression(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9][A-Za-z0-9_-]{0,62}){0,3}$`)

// unfit returns the reason why the request cannot become a rule, or "".
func (r request) unfit(p flags) string {
	if r.peer == "" {
		if isThisHost(p.rest[1]) && (p.values['p'] == "" || p.values['p'] == achdPort) {
			return p.rest[1] + " is this host"
		}
		if strings.Contains(p.rest[1], ":") && !strings.HasSuffix(r.host, "://"+p.rest[1]) {
			return "-p: rules do not support a port after an IPv6 address"
		}
		if _, err := rule.ParseAchd(r.host); err != nil {
			return err.Error()
		}
	} else if !IsHostName(r.host) || !peerName().MatchString(r.peer) && !isAddress(r.peer) {
		return fmt.Sprintf("%q is not the name of a host", r.peer)
	}
	for _, channel := range []string{r.local, r.remote} {
		if err := localach.CheckName(channel); err != nil {
			return fmt.Sprintf("%q is not the name of a channel", channel)
		}
	}
	return ""
}

func isThisHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
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
