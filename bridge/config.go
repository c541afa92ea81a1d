package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

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

	Export  []string // local channels that peers may read; nil: all
	Relay   []string // mirrors that peers may read as well; nil: none
	Accept  []string // names that peers may push into; nil: none
	Adopt   []string // existing channels, not made by achbridge, that a mirror may write into
	Mirrors []Mirror
	Pushes  []Push
	Log     *slog.Logger // nil: no log
}

// Mirror is the wish to have channels of other hosts here.
type Mirror struct {
	Host    string `json:"host"`    // pattern
	Channel string `json:"channel"` // pattern
	As      string `json:"as,omitempty"`
	QoS     QoS    `json:"qos"`
}

// Push is the wish that another host mirrors a channel of ours.
type Push struct {
	Channel string `json:"channel"`
	Host    string `json:"host"`
	As      string `json:"as,omitempty"` // name over there; empty: the same
}

// Peer is another node that may be dialled.
type Peer struct {
	Host   string            // its name; empty when not known yet
	Node   string            // its node id in hex; empty when not known yet
	Addrs  []transport.Addrs // best first
	Static bool              // listed by the operator: always dialled
}

// Source is how a node learns what happens to the channels of its directory.
// ShmSource is the real one; tests in virtual time bring one that polls.
type Source interface {
	// Changes calls f for every channel there is and then for every change, until ctx ends.
	Changes(ctx context.Context, f func(localach.Event)) error
	// NewData calls f, which does not block, soon after every put into ch. stop ends that.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
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

// ParseMirror reads HOST/CHANNEL or HOST/PATTERN, with options behind it:
// as=NAME if the mirror is to have another name, and those of QoS, as in
// "krang/*,budget=20ms,priority=7".
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
	if err := m.check(); err != nil {
		return Mirror{}, fmt.Errorf("mirror %q: %w", s, err)
	}
	return m, nil
}

// set sets one option, written as key=value.
func (m *Mirror) set(option string) error {
	key, value, ok := strings.Cut(option, "=")
	switch {
	case !ok:
		return fmt.Errorf("option %q: want key=value, as in budget=20ms", option)
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

func (m Mirror) check() error {
	if err := errors.Join(checkPattern("host", m.Host), checkPattern("channel", m.Channel), m.QoS.check()); err != nil {
		return err
	}
	if m.As == "" {
		return nil
	}
	if isPattern(m.Host) || isPattern(m.Channel) {
		return fmt.Errorf("as %q: one name cannot serve a pattern; name one channel of one host", m.As)
	}
	return localach.CheckName(m.As)
}

func (p Push) check() error {
	if p.Host == "" || isPattern(p.Host) {
		return fmt.Errorf("host %q: want the name of one host", p.Host)
	}
	return errors.Join(localach.CheckName(p.Channel), localach.CheckName(p.name()))
}

// name is what the channel is called over there.
func (p Push) name() string {
	if p.As != "" {
		return p.As
	}
	return p.Channel
}

// mirrorName is what the mirror of channel of host is called here.
func (m Mirror) mirrorName(host, channel string) string {
	if m.As != "" {
		return m.As
	}
	return achName(host) + "." + channel
}

// achName makes a host's name fit for channels: bytes that Ach does not allow
// become '-'.
func achName(host string) string {
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
	for what, patterns := range map[string][]string{"export": c.Export, "relay": c.Relay, "accept": c.Accept, "adopt": c.Adopt} {
		for i, p := range patterns {
			errs = append(errs, checkPattern(fmt.Sprintf("%s[%d]", what, i), p))
		}
	}
	for i, m := range c.Mirrors {
		if err := m.check(); err != nil {
			errs = append(errs, fmt.Errorf("mirror[%d]: %w", i, err))
		}
	}
	for i, p := range c.Pushes {
		if err := p.check(); err != nil {
			errs = append(errs, fmt.Errorf("push[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
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
