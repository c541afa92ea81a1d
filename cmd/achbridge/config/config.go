package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
	"achbridge/localach"
)

// Config is the checked configuration, merged from the flags, the environment and the file.
// Each setting knows where it was written.
type Config struct {
	Settings
	Path string            // path of the file; empty if there is none
	from map[string]origin // position by key; a missing key has its default value

	ExportGrants rule.Grants
	AcceptGrants rule.Grants
	MirrorRules  rule.Mirrors // the rules of merge, then those of mirror
	mergeRules   rule.Mirrors // only those of merge
	ownMirrors   rule.Mirrors // only those of mirror
	PushRules    rule.Pushes
	MuxRules     rule.Muxes
	ChannelRules []Channel
	Recorder     Recorder
	StaticPeers  []discovery.Static
	Zones        []discovery.Domain
	AchdNetworks []netip.Prefix
	rules        map[string]ruleEntry // entries by path, as read
	warnings     []string             // about settings that are probably wrong, see Warnings
}

// IsNamed reports whether the configuration sets the host's name. If not, the host has the system's name.
func (c *Config) IsNamed() bool { return c.from["name"] != (origin{}) }

// Source holds the places from which Load reads the configuration. It can be loaded again.
type Source struct {
	Path  string // path of the file; empty if there is none
	Env   func(string) string
	flags []givenFlag
}

// givenFlag is a flag that was set on the command line, with its values as text.
type givenFlag struct {
	name  string
	texts []string
}

// Source returns the source of the configuration. The file is path (from the flag), or the one
// in the environment, or the user's, or the system's, in this order.
func (p Places) Source(path string, flags *pflag.FlagSet) Source {
	src := Source{Path: cmp.Or(path, p.Env(EnvName("config")), p.findConfig()), Env: p.Env}
	if flags != nil {
		src.flags = givenFlags(flags)
	}
	return src
}

// EnvName returns the environment variable of a key.
func EnvName(key string) string {
	return "ACHBRIDGE_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_")) // a shell can set only such names
}

// Load reads the file, the environment and the flags. Its error is of type Problems and has
// every error of the configuration, unless the file cannot be read at all.
func (src Source) Load() (*Config, error) {
	if src.Path == "" {
		return src.Read("", nil)
	}
	text, err := os.ReadFile(src.Path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("config %s: no such file%.0w", src.Path, err)
	}
	if err != nil {
		return nil, ui.File(err, fixOf(err))
	}
	return src.Read(src.Path, text)
}

// Read makes a Config from the text of the file, the environment and the flags. path is used
// only for positions in errors.
func (src Source) Read(path string, text []byte) (*Config, error) {
	c := &Config{Settings: Defaults(), Path: path, from: map[string]origin{}, rules: map[string]ruleEntry{}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags(flags)
	c.onlyInFile(flags)
	b := &ruleBuilder{config: c}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	c.warnOfTypography(path, text)
	entries, found := parseConfig(path, text)
	b.Problems = found
	c.takeFile(flags, entries, b)
	c.takeEnv(flags, src.Env, b)
	c.takeFlags(flags, src.flags, b)
	c.build(b)
	if err := b.err(); err != nil {
		return nil, ui.Usage(err, "")
	}
	return c, nil
}

func fixOf(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "let the daemon's user read it, or name another file: --config FILE"
	}
	return "name an existing file: --config FILE, or ACHBRIDGE_CONFIG"
}

// takeFile sets the values of the file.
func (c *Config) takeFile(flags *pflag.FlagSet, entries []entry, b *ruleBuilder) {
	for _, e := range entries {
		c.from[e.key.name] = e.at
		if e.key.kind == aMap {
			c.Types = e.types
			continue
		}
		flag := flags.Lookup(e.key.flagName())
		switch list := flag.Value.(type) {
		case *ruleFlag:
			*list.rules = e.rules
		case pflag.SliceValue:
			texts := make([]string, len(e.values))
			for i, v := range e.values {
				texts[i] = v.text
				c.from[fmt.Sprintf("%s[%d]", e.key.name, i)] = v.at
			}
			b.addError(e.at, list.Replace(texts))
		default:
			c.from[e.key.name] = e.values[0].at
			c.set(flag, e.values[0], b)
		}
	}
}

// takeEnv sets the values of the environment, which override the file's.
func (c *Config) takeEnv(flags *pflag.FlagSet, env func(string) string, b *ruleBuilder) {
	for _, key := range configKeys {
		if name := key.variable(); name != "" && env(name) != "" {
			at := origin{Source: name}
			c.from[key.name] = at
			c.set(flags.Lookup(key.flagName()), value{env(name), at}, b)
		}
	}
}

// takeFlags sets the values of the command line, which override the environment's and the
// file's. A list replaces the whole list of the file.
func (c *Config) takeFlags(flags *pflag.FlagSet, given []givenFlag, b *ruleBuilder) {
	for _, g := range given {
		flag := flags.Lookup(g.name)
		at := origin{Source: "--" + g.name}
		if _, ok := flag.Value.(*noDiscovery); ok {
			defer c.switchDiscoveryOff(g.texts[0] == "true", at, b) // after --discovery
			continue
		}
		key := keyOfFlag(g.name)
		c.from[key] = at
		switch list := flag.Value.(type) {
		case *ruleFlag:
			*list.rules = list.read(g.texts)
		case pflag.SliceValue:
			for i := range g.texts {
				c.from[fmt.Sprintf("%s[%d]", key, i)] = at
			}
			b.addError(at, list.Replace(g.texts))
		default:
			c.set(flag, value{g.texts[0], at}, b)
		}
	}
}

// switchDiscoveryOff applies --no-discovery. It records a problem if --discovery contradicts.
func (c *Config) switchDiscoveryOff(off bool, at origin, b *ruleBuilder) {
	const key = "discovery"
	if !off {
		return
	}
	if other := c.from[key]; other.Source == "--"+key && c.Discovery {
		b.add(at, "%s=%s says the opposite; give one of them", other.Source, c.Discovery)
	}
	c.Discovery, c.from[key] = false, at
}

// set sets a single value through its flag, which parses and checks the text.
func (c *Config) set(flag *pflag.Flag, v value, b *ruleBuilder) {
	b.addError(v.at, flag.Value.Set(v.text))
}

// build parses the lists into rules and addresses, and checks them.
func (c *Config) build(b *ruleBuilder) {
	var err error
	c.Key, err = c.filePath(value{c.Key, c.from["key"]})
	b.addError(c.placeOf("key", -1), err)
	c.HubCreds, err = c.filePath(value{c.HubCreds, c.from["hub_creds"]})
	b.addError(c.placeOf("hub_creds", -1), err)
	c.FoxgloveCert, err = c.filePath(value{c.FoxgloveCert, c.from["foxglove.cert"]})
	b.addError(c.placeOf("foxglove.cert", -1), err)
	lists := c.ruleLists()
	for _, key := range configKeys {
		if key.kind != ruleSet {
			continue
		}
		rules := *lists[key.name]
		for i, r := range rules {
			rules[i] = b.parseText(key.name, r)
			c.rules[r.at.Path] = rules[i]
		}
	}
	if c.from["export"] != (origin{}) {
		c.ExportGrants = b.grants(c.Export)
	}
	c.AcceptGrants = b.grants(c.Accept)
	c.mergeRules = b.MirrorRules(c.Merge, rule.Mirror{Merge: true, QoS: rule.QoS{Mode: rule.Every}})
	c.ownMirrors = b.MirrorRules(c.Mirror, rule.Mirror{})
	c.MirrorRules = slices.Concat(c.mergeRules, c.ownMirrors)
	for i, m := range c.MirrorRules {
		b.addError(c.rules[m.From].at, c.MirrorRules.CheckMerge(i, c.AcceptGrants))
	}
	c.PushRules = b.PushRules(c.Push)
	c.MuxRules = b.muxRules(c.Mux)
	for i, m := range c.MuxRules {
		b.addError(c.rules[m.From].at, m.CheckAmong(c.MuxRules[:i], c.MirrorRules, c.AcceptGrants))
	}
	for i, text := range c.Peers {
		at := c.placeOf("peers", i)
		p, err := listedPeer(text, c.Transport)
		b.addError(at, err)
		c.StaticPeers = append(c.StaticPeers, p)
	}
	c.checkTransports(b)
	for i, text := range c.Domains {
		d, err := discovery.ParseDomain(text)
		b.addError(c.placeOf("domains", i), err)
		c.Zones = append(c.Zones, d)
	}
	b.addError(origin{}.or(c.placeOf("peers", -1)), checkListed(c.StaticPeers)) // the error names the entries
	for i, text := range c.Relay {
		b.addError(c.placeOf("relay", i), rule.CheckPattern("channel", text))
	}
	for i, text := range c.Adopt {
		b.addError(c.placeOf("adopt", i), rule.CheckPattern("channel", text))
	}
	for i, text := range c.HTTPHosts {
		b.addError(c.placeOf("http_hosts", i), checkHTTPHost(text))
	}
	c.ChannelRules = b.channelRules(c.Channels)
	c.checkChannels(b)
	c.buildAchd(b)
	c.buildRecorder(b)
	c.checkFoxglove(b)
	c.checkHub(b)
	if localach.CheckName(c.Name) != nil {
		b.add(c.placeOf("name", -1), "%q: want 1 to 63 of A-Z a-z 0-9 - _ . as mirrors are called NAME.CHANNEL", c.Name)
	}
	if _, err := net.ResolveUDPAddr("udp", c.Listen); err != nil {
		b.add(c.placeOf("listen", -1), "%q: want :PORT or ADDRESS:PORT, as in %s", c.Listen, defaultListen)
	}
}

// placeOf returns where entry i of a key's list is written; with i < 0, where the key is.
func (c *Config) placeOf(key string, i int) origin {
	at := c.from[key]
	at.Path = key
	if i < 0 {
		return at
	}
	path := fmt.Sprintf("%s[%d]", key, i)
	if entry, ok := c.from[path]; ok {
		at = entry
	}
	at.Path = path
	return at
}
