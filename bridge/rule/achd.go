package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"achbridge/bridge/via"
	"achbridge/localach"
)

// A host with achd and without achbridge is named with the prefix of achd's protocol: achd://HOST for TCP,
// achd+udp://HOST for UDP. Rules, requests and the status use this name. Patterns do not match it, so that a
// protocol without authentication is only used if a rule names it. The exception is host * in a rule that
// denies, which is for all hosts.
const (
	achdTCP = "achd://"
	achdUDP = "achd+udp://"
	// achdPort is achd's default port; names omit it.
	achdPort = "8076"
)

// cutAchd splits achd's protocol prefix off text. protocol is empty if text has none.
func cutAchd(text string) (protocol, rest string) {
	for _, p := range []string{achdTCP, achdUDP} {
		if rest, ok := strings.CutPrefix(text, p); ok {
			return p, rest
		}
	}
	return "", text
}

// IsAchd reports whether host is the name of a host with achd.
func IsAchd(host string) bool {
	protocol, _ := cutAchd(host)
	return protocol != ""
}

// Achd is the address of a host with achd.
type Achd struct {
	Host, Port string // host name or IP address, and port
	UDP        bool   // frames arrive as datagrams
}

// ParseAchd parses a host name for which IsAchd returns true.
func ParseAchd(name string) (Achd, error) {
	protocol, rest := cutAchd(name)
	a := Achd{Host: rest, Port: achdPort, UDP: protocol == achdUDP}
	bad := fmt.Errorf("host %q: want %sHOST or %sHOST, with :PORT behind it if that is not %s", name, achdTCP, achdUDP, achdPort)
	switch strings.Count(rest, ":") {
	case 0:
	case 1:
		a.Host, a.Port, _ = strings.Cut(rest, ":")
	default: // an IPv6 address
		if strings.Trim(strings.ToLower(rest), "0123456789abcdef:.") != "" {
			return a, fmt.Errorf("%w; write an IPv6 address without brackets; its port is %s", bad, achdPort)
		}
		if a.UDP {
			return a, fmt.Errorf("host %q: achd has UDP over IPv4 only", name)
		}
	}
	if a.Host == "" || strings.ContainsAny(a.Host, "/,= #") || IsPattern(a.Host) || !isPort(a.Port) {
		return a, bad
	}
	return a, nil
}

func isPort(text string) bool {
	return text != "" && len(text) <= 5 && strings.Trim(text, "0123456789") == "" && text[0] != '0' && (len(text) < 5 || text <= "65535")
}

// plainAchd returns the canonical name of a host, without achd's default port.
func plainAchd(host string) string {
	if protocol, rest := cutAchd(host); protocol != "" && strings.Count(rest, ":") == 1 {
		return strings.TrimSuffix(host, ":"+achdPort)
	}
	return host
}

// shortAchd returns the value of {host} in names of mirrors: the host name without protocol and port.
func shortAchd(host string) string {
	if !IsAchd(host) {
		return host
	}
	a, err := ParseAchd(host)
	if err != nil {
		_, a.Host = cutAchd(host)
	}
	return a.Host
}

// checkAchd returns an error if achd's protocol does not support the mirror.
func (m Mirror) checkAchd() error {
	if m.Deny || !IsAchd(m.Host) {
		return nil
	}
	_, err := ParseAchd(m.Host)
	switch {
	case err != nil:
	case IsPattern(m.Channel):
		err = fmt.Errorf("channel %q: achd does not tell which channels it has; name one, as in %s/imu", m.Channel, m.Host)
	case m.Over != via.Any:
		err = fmt.Errorf("transport %s: only links have it; %sHOST is TCP, %sHOST is UDP", m.Over, achdTCP, achdUDP)
	default:
		err = localach.CheckName(m.Channel)
	}
	return cmp.Or(err, m.QoS.checkAchd(m.Host))
}

// checkAchd returns an error if achd's protocol does not support the push.
func (p Push) checkAchd() error {
	_, err := ParseAchd(p.Host)
	if err == nil && p.Over != via.Any {
		err = fmt.Errorf("transport %s: only links have it; %sHOST is TCP, %sHOST is UDP", p.Over, achdTCP, achdUDP)
	}
	return cmp.Or(err, errors.Join(localach.CheckName(p.Channel), localach.CheckName(p.NameThere()), p.checkQoS(), p.QoS.checkAchd(p.Host)))
}

// denies reports whether a rule that denies applies to host. Unlike in other rules, * includes hosts with achd.
func denies(pattern, host string) bool { return pattern == "*" || Match(pattern, host) }

// achdOptions lists the options that achd's protocol supports, and those that need no support of the origin.
var achdOptions = []string{"mode", "max_rate", "deadline", "meta"}

// checkAchd returns an error for each option that achd does not support.
func (q QoS) checkAchd(host string) error {
	if q.Class == Command {
		return errors.New("class command: achd transmits neither the age of a frame nor its sender, so it carries no commands")
	}
	var errs []error
	for _, o := range options {
		if !o.usual(q) && !slices.Contains(achdOptions, o.Key) {
			errs = append(errs, fmt.Errorf("%s %s: %s has achd, which has no such option; leave it out", o.Key, o.Text(q), host))
		}
	}
	return errors.Join(errs...)
}
