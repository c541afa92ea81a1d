package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/transport"
	"achbridge/localach"
	"achbridge/wire"
)

// Config says what a node is to do. Patterns are as in path.Match.
type Config struct {
	Host     string           // name of this host, as others write it
	Node     transport.NodeID // identity of this node
	Dir      localach.Dir     // where the channels are
	Source   Source           // how the node learns of changes there
	Endpoint *transport.Endpoint

	Export  Grants   // local channels that peers may read; nil: all
	Relay   []string // mirrors that peers may read as well; nil: none
	Accept  Grants   // names that peers may push into; nil: none
	Adopt   []string // existing channels, not made by achbridge, that a mirror may write into
	Mirrors Mirrors
	Pushes  Pushes
	Log     *slog.Logger // nil: no log
}

// Mirror is the wish to have channels of other hosts here.
type Mirror struct {
	Host    string `json:"host"`    // pattern
	Channel string `json:"channel"` // pattern
	// As is the mirror's name, in which {host} and {channel} stand for those of
	// the origin; empty: HOST.CHANNEL.
	As       string   `json:"as,omitempty"`
	QoS      QoS      `json:"qos"`
	FileMode FileMode `json:"-"` // of the mirror's file, when it is made
	// Over is the only transport of the links with the hosts that the wish is for;
	// empty means any. One link carries all channels of a host.
	Over string `json:"transport,omitempty"`
	Deny bool   `json:"-"` // a rule that there is to be no mirror, whatever other rules say
	From string `json:"-"` // where the wish is written, for people
}

// Push is the wish that another host mirrors a channel of ours.
type Push struct {
	Channel string `json:"channel"` // a pattern in the configuration
	Host    string `json:"host"`
	As      string `json:"as,omitempty"` // name over there, in which {channel} stands for ours; empty: the same
	// QoS is what the peer is asked to ask for, as far as its rule leaves it open. More
	// than its MaxRate and Priority the peer does not get.
	QoS  QoS    `json:"qos"`
	Over string `json:"-"` // as in Mirror; of a rule
	Deny bool   `json:"-"` // a rule that there is to be no push; Host is then a pattern
	From string `json:"-"` // where the wish is written, for people
}

// Peer is another node that may be dialled.
type Peer struct {
	Host   string            // its name; empty when not known yet
	Node   string            // its node id in hex; empty when not known yet
	Addrs  []transport.Addrs // best first
	Static bool              // listed by the operator: always dialled
	// Over is the only transport by which to be linked with it, as
	// transport.Session.Transport names them; empty means any.
	Over string
}

// Source is how a node learns what happens to the channels of its directory.
// ShmSource is the real one; tests in virtual time bring one that polls.
type Source interface {
	// Changes calls f for every channel there is and then for every change, until ctx ends.
	Changes(ctx context.Context, f func(localach.Event)) error
	// NewData calls f, which does not block, soon after every put into ch. stop ends that.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
	// Looked is a moment that every frame was put after, or just before, of which NewData has not told when Looked is
	// called: long ago only when the process stood still.
	Looked() time.Time
}

// ShmSource is the Source of a running system: inotify for the directory, and
// a Watcher, which the caller runs, for the data.
func ShmSource(dir localach.Dir, w *localach.Watcher) Source { return shmSource{dir, w} }

type shmSource struct {
	dir     localach.Dir
	watcher *localach.Watcher
}

func (s shmSource) Changes(ctx context.Context, f func(localach.Event)) error {
	return s.dir.Watch(ctx, f)
}

func (s shmSource) NewData(ch *localach.Channel, f func(seq uint64)) func() {
	return s.watcher.Watch(ch, f).Close
}

func (s shmSource) Looked() time.Time { return s.watcher.Looked() }

// ParseMirror reads HOST/CHANNEL or HOST/PATTERN, with options behind it:
// as=NAME if the mirror is to have another name, file_mode=0660, and those of
// QoS, as in "krang/*,budget=20ms,priority=7".
func ParseMirror(s string) (Mirror, error) {
	address, options, more := strings.Cut(s, ",")
	host, channel, ok := strings.Cut(strings.TrimPrefix(address, "ach://"), "/")
	if !ok || host == "" || channel == "" {
		return Mirror{}, fmt.Errorf("mirror %q: want HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'", s)
	}
	m := Mirror{Host: host, Channel: channel}
	for more {
		var option string
		option, options, more = strings.Cut(options, ",")
		if err := m.set(option); err != nil {
			return Mirror{}, fmt.Errorf("mirror %q: %w", s, err)
		}
	}
	if err := m.Check(); err != nil {
		return Mirror{}, fmt.Errorf("mirror %q: %w", s, err)
	}
	return m, nil
}

// set sets one option, written as key=value.
func (m *Mirror) set(option string) error {
	key, value, ok := strings.Cut(option, "=")
	if !ok {
		return fmt.Errorf("option %q: want key=value, as in budget=20ms", option)
	}
	return m.Set(key, value)
}

// Set sets one option: as, file_mode, or one of QoS.
func (m *Mirror) Set(key, value string) (err error) {
	switch {
	case key == "file_mode":
		if m.FileMode, err = ParseFileMode(value); err != nil {
			return fmt.Errorf("file_mode %w", err)
		}
		return nil
	case key == "transport":
		m.Over, err = ParseTransport(value)
		return err
	case key != "as":
		return m.QoS.Set(key, value)
	case value == "":
		return errors.New("as: want the mirror's name behind it, as in as=imu")
	}
	m.As = value
	return nil
}

// ParsePush reads CHANNEL and HOST or HOST/NAME.
func ParsePush(channel, target string) (Push, error) {
	host, as, _ := strings.Cut(target, "/")
	p := Push{Channel: channel, Host: host, As: as}
	if err := p.check(); err != nil {
		return Push{}, fmt.Errorf("push %s %s: %w", channel, target, err)
	}
	return p, nil
}

// Check refuses what no mirror can be.
func (m Mirror) Check() error {
	if err := errors.Join(checkPattern("host", m.Host), checkPattern("channel", m.Channel), m.QoS.Check(), m.QoS.OnStale.check()); err != nil {
		return err
	}
	if m.Over != "" && m.Over != overQUIC && m.Over != overSCTP {
		return fmt.Errorf("transport %q: want quic or sctp", m.Over)
	}
	if m.QoS.Meta && !isPattern(m.Host+m.Channel) && !m.Deny {
		if err := checkMetaName(m.Name(m.Host, m.Channel)); err != nil {
			return err
		}
	}
	if m.As == "" {
		return nil
	}
	if isPattern(m.Host) && !strings.Contains(m.As, "{host}") || isPattern(m.Channel) && !strings.Contains(m.As, "{channel}") {
		return fmt.Errorf("as %q: one name cannot serve a pattern; name one channel of one host, or put {host} and {channel} into it", m.As)
	}
	return checkTemplate(m.As)
}

func (p Push) check() error {
	if p.Host == "" || isPattern(p.Host) {
		return fmt.Errorf("host %q: want the name of one host", p.Host)
	}
	return errors.Join(localach.CheckName(p.Channel), localach.CheckName(p.name()), p.checkQoS())
}

func (p Push) checkQoS() error {
	if p.QoS.Deadline != 0 || p.QoS.OnStale != (OnStale{}) || p.QoS.Meta {
		return fmt.Errorf("deadline, on_stale and meta are for the host that has the mirror: set them in the rule by which %s accepts it", p.Host)
	}
	return p.QoS.Check()
}

// Check checks a push of the configuration, which may be for a pattern.
func (p Push) Check() error {
	if p.Deny {
		return errors.Join(checkPattern("channel", p.Channel), checkPattern("host", p.Host))
	}
	if !isPattern(p.Channel) {
		return p.check()
	}
	if p.As != "" && !strings.Contains(p.As, "{channel}") {
		return fmt.Errorf("as %q: one name cannot serve a pattern; put {channel} into it", p.As)
	}
	return errors.Join(checkPattern("channel", p.Channel), Push{Channel: "c", Host: p.Host, As: p.As, QoS: p.QoS}.check())
}

// name is what the channel is called over there.
func (p Push) name() string { return p.Name(p.Channel) }

// Name is what a channel that p is for is called over there.
func (p Push) Name(channel string) string { return expand(cmp.Or(p.As, "{channel}"), "", channel) }

// Same reports whether two wishes are for the same push.
func (p Push) Same(o Push) bool { return p.Channel == o.Channel && p.Host == o.Host && p.As == o.As }

// Name is what the mirror of channel of host is called here.
func (m Mirror) Name(host, channel string) string {
	return expand(cmp.Or(m.As, "{host}.{channel}"), host, channel)
}

// achName makes a host's name fit for channels: bytes that Ach does not allow
// become '-'.
func achName(host string) string {
	if localach.CheckName(host) == nil {
		return host
	}
	return strings.Map(func(r rune) rune {
		if localach.CheckName("x"+string(r)) != nil {
			return '-'
		}
		return r
	}, host)
}

func (c *Config) check() error {
	var errs []error
	hello := wire.Hello{Version: wire.Version, Host: c.Host, Node: transport.NodeID{1}}
	if _, err := wire.AppendMessage(nil, hello); err != nil {
		errs = append(errs, fmt.Errorf("name: %w; choose another with --name", err))
	}
	errs = append(errs, c.Export.check("export"), c.Accept.check("accept"))
	for what, patterns := range map[string][]string{"relay": c.Relay, "adopt": c.Adopt} {
		for i, p := range patterns {
			errs = append(errs, checkPattern(fmt.Sprintf("%s[%d]", what, i), p))
		}
	}
	for i, m := range c.Mirrors {
		if err := m.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(m.From, fmt.Sprintf("mirror[%d]", i)), err))
		}
	}
	for i, p := range c.Pushes {
		if err := p.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(p.From, fmt.Sprintf("push[%d]", i)), err))
		}
	}
	return errors.Join(errs...)
}

// settle fills in what an empty list stands for.
func (c *Config) settle() {
	if c.Export == nil {
		c.Export = GrantTo("*")
	}
}

func checkPattern(what, p string) error {
	if _, err := path.Match(p, ""); err != nil || p == "" {
		return fmt.Errorf("%s %q: not a pattern; * stands for any text, ? for one character, [ab] for one of them", what, p)
	}
	return nil
}

func isPattern(s string) bool { return strings.ContainsAny(s, "*?[\\") }

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

func match(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// same reports whether two wishes are for the same mirrors; they may differ in QoS.
func (m Mirror) same(o Mirror) bool {
	return m.Host == o.Host && m.Channel == o.Channel && m.As == o.As
}

// covers reports whether the wish is for a channel of a host.
func (m Mirror) covers(host, channel string) bool {
	return match(m.Host, host) && match(m.Channel, channel)
}
