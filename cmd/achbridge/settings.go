package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge"
	"achbridge/discovery"
	"achbridge/localach"
)

// settings is everything `run` can be told, by flag or by the configuration
// file. Lists hold the same text in both.
type settings struct {
	Name       string        `yaml:"name"`
	Listen     string        `yaml:"listen"`
	Transport  transportMode `yaml:"transport"`
	Key        string        `yaml:"key"`
	Export     []string      `yaml:"export"`
	Relay      []string      `yaml:"relay"`
	Accept     []string      `yaml:"accept"`
	Adopt      []string      `yaml:"adopt"`
	Mirror     []string      `yaml:"mirror"`
	Push       []string      `yaml:"push"`
	Peers      []string      `yaml:"peers"`
	Interfaces []string      `yaml:"interfaces"`
	Discovery  discoveryMode `yaml:"discovery"`
	Control    string        `yaml:"control"`
	State      string        `yaml:"state"`
	Log        slog.Level    `yaml:"log"`
}

const defaultListen = ":8076"

func defaultSettings() settings {
	host, _ := os.Hostname()
	return settings{
		Name:      hostName(host),
		Listen:    defaultListen,
		Transport: transportQUIC,
		Discovery: discoveryAuto,
	}
}

// hostName is what others call this host unless they are told otherwise: its
// system name up to the first dot.
func hostName(system string) string {
	name, _, _ := strings.Cut(system, ".")
	return discovery.HostName(name)
}

// flags defines the flags of `run` on cmd with s as their values.
func (s *settings) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.Name, "name", s.Name, "`NAME` of this host for others")
	f.StringVar(&s.Listen, "listen", s.Listen, "UDP `ADDRESS:PORT` to listen on")
	f.Var(&s.Transport, "transport", "links over quic, sctp (on the next port), or auto: QUIC, else SCTP")
	f.StringVar(&s.Key, "key", s.Key, "key `FILE` (default: see achbridge key --help)")
	f.StringArrayVar(&s.Mirror, "mirror", nil, "mirror `HOST/PATTERN[,KEY=VALUE]` here, options as above")
	f.StringArrayVar(&s.Push, "push", nil, "have another host mirror a channel of ours: `\"CHANNEL HOST[/NAME]\"`")
	f.StringArrayVar(&s.Export, "export", nil, "let peers read the channels that match `PATTERN` (default all)")
	f.StringArrayVar(&s.Relay, "relay", nil, "let peers also read the mirrors that match `PATTERN` (default none)")
	f.StringArrayVar(&s.Accept, "accept", nil, "let peers push into channels that match `PATTERN` (default none)")
	f.StringArrayVar(&s.Adopt, "adopt", nil, "let a mirror use the existing channels that match `PATTERN` (default none)")
	f.StringArrayVar(&s.Peers, "peer", nil, "dial `HOST[:PORT]` at once, whatever is discovered")
	f.StringArrayVar(&s.Interfaces, "interface", nil, "discover on network `INTERFACE` (default all)")
	f.Var(&s.Discovery, "discovery", "find peers by mDNS: auto or off")
	f.Var(noDiscovery{&s.Discovery}, "no-discovery", "the same as --discovery=off")
	f.Lookup("no-discovery").NoOptDefVal = "true"
	f.StringVar(&s.Control, "control", s.Control, "`PATH` of the control socket (default: see achbridge run --help)")
	f.StringVar(&s.State, "state", s.State, "`DIR` in which the node remembers its identity")
	f.TextVar(&s.Log, "log", s.Log, "log `LEVEL`: debug, info, warn, error")
	_ = cmd.MarkFlagFilename("key")
	_ = cmd.MarkFlagDirname("state")
}

// underlay puts the configuration file beneath the flags that were given: a
// flag, a whole list too, takes the place of the file's key.
func (s *settings) underlay(path string, given *pflag.FlagSet) error {
	set := map[*pflag.Flag][]string{}
	given.Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			set[f] = list.GetSlice()
		} else {
			set[f] = []string{f.Value.String()}
		}
	})
	if err := readConfig(path, s); err != nil {
		return err
	}
	var errs []error
	for f, values := range set {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			errs = append(errs, list.Replace(values))
		} else {
			errs = append(errs, f.Value.Set(values[0]))
		}
	}
	return errors.Join(errs...)
}

// wishes are what the lists of the settings say.
type wishes struct {
	mirrors []bridge.Mirror
	pushes  []bridge.Push
	static  []discovery.Static
}

// wishes reads the lists; it reports every mistake at once.
func (s *settings) wishes() (w wishes, err error) {
	var errs []error
	if localach.CheckName(s.Name) != nil {
		errs = append(errs, fmt.Errorf("name %q: want 1 to 63 of A-Z a-z 0-9 - _ . as mirrors are called NAME.CHANNEL", s.Name))
	}
	for i, text := range s.Mirror {
		m, err := bridge.ParseMirror(text)
		errs = append(errs, at("mirror", i, err))
		w.mirrors = append(w.mirrors, m)
	}
	for i, text := range s.Push {
		p, err := parsePush(text)
		errs = append(errs, at("push", i, err))
		w.pushes = append(w.pushes, p)
	}
	for i, text := range s.Peers {
		p, err := discovery.ParseStatic(fmt.Sprintf("peers[%d]", i), text)
		errs = append(errs, err)
		w.static = append(w.static, p)
	}
	if _, err := net.ResolveUDPAddr("udp", s.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %q: want :PORT or ADDRESS:PORT, as in %s", s.Listen, defaultListen))
	}
	return w, errors.Join(errs...)
}

// at says in which entry of a list an error is.
func at(list string, i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s[%d]: %w", list, i, err)
}

func parsePush(text string) (bridge.Push, error) {
	channel, target, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		return bridge.Push{}, fmt.Errorf("%q: want \"CHANNEL HOST[/NAME]\"", text)
	}
	return bridge.ParsePush(channel, strings.TrimSpace(target))
}

// discoveryMode says how peers are found.
type discoveryMode string

const (
	discoveryAuto discoveryMode = "auto" // mDNS and static peers
	discoveryOff  discoveryMode = "off"  // static peers only
)

func (d *discoveryMode) String() string { return string(*d) }
func (d *discoveryMode) Type() string   { return "MODE" }

func (d *discoveryMode) Set(text string) error {
	switch v := discoveryMode(text); v {
	case discoveryAuto, discoveryOff:
		*d = v
		return nil
	}
	return fmt.Errorf("discovery %q: want auto or off", text)
}

func (d *discoveryMode) UnmarshalText(text []byte) error { return d.Set(string(text)) }

// noDiscovery is the flag --no-discovery.
type noDiscovery struct{ mode *discoveryMode }

func (n noDiscovery) Type() string   { return "bool" }
func (n noDiscovery) String() string { return "false" }

func (n noDiscovery) Set(text string) error {
	switch text {
	case "true":
		*n.mode = discoveryOff
		return nil
	case "false":
		return nil
	}
	return fmt.Errorf("want true or false, not %q", text)
}
