package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
	"achbridge/localach"
)

// Config is what the flags, the environment and the file come to, checked. Each
// setting knows where it was written.
type Config struct {
	Settings
	Path string            // of the file; empty: there is none
	from map[string]origin // by key; those that are missing have their default

	ExportGrants rule.Grants
	AcceptGrants rule.Grants
	MirrorRules  rule.Mirrors
	PushRules    rule.Pushes
	StaticPeers  []discovery.Static
	Zones        []discovery.Domain
	rules        map[string]ruleEntry // by path, as read
}

// Source is where a configuration is read from, as often as is asked.
type Source struct {
	Path  string // of the file; empty: there is none
	Env   func(string) string
	given []givenFlag
}

// givenFlag is a flag of the command line with its texts.
type givenFlag struct {
	name  string
	texts []string
}

// Source finds the configuration: the file that is named by flag or environment,
// else the user's, else the system's if there is one.
func (p Places) Source(path string, flags *pflag.FlagSet) Source {
	src := Source{Path: cmp.Or(path, p.Env(EnvName("config")), p.findConfig()), Env: p.Env}
	if flags != nil {
		src.given = givenFlags(flags)
	}
	return src
}

// EnvName is the environment variable of a key.
func EnvName(key string) string { return "ACHBRIDGE_" + strings.ToUpper(key) }

// Load reads everything. An error is problems, all of them, unless the file
// cannot be read at all.
func (src Source) Load() (*Config, error) {
	if src.Path == "" {
		return src.Read("", nil)
	}
	text, err := os.ReadFile(src.Path)
	if err != nil {
		return nil, ui.Usage(fmt.Errorf("config: %w", err), cureOf(err))
	}
	return src.Read(src.Path, text)
}

// Read makes the configuration of the text of the file, the environment and the
// flags.
func (src Source) Read(path string, text []byte) (*Config, error) {
	c := &Config{Settings: Defaults(), Path: path, from: map[string]origin{}, rules: map[string]ruleEntry{}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags(flags)
	b := &ruleBuilder{}
	entries, found := parseConfig(path, text)
	b.Problems = found
	c.takeFile(flags, entries, b)
	c.takeEnv(flags, src.Env, b)
	c.takeFlags(flags, src.given, b)
	c.build(b)
	if err := b.err(); err != nil {
		return nil, ui.Usage(err, "")
	}
	return c, nil
}

func cureOf(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "let the daemon's user read it, or name another file: --config FILE"
	}
	return "name the file that there is: --config FILE, or ACHBRIDGE_CONFIG"
}

// takeFile sets what the file says.
func (c *Config) takeFile(flags *pflag.FlagSet, entries []entry, b *ruleBuilder) {
	for _, e := range entries {
		flag := flags.Lookup(e.key.flagName())
		c.from[e.key.name] = e.at
		switch list := flag.Value.(type) {
		case *ruleFlag:
			*list.rules = e.rules
		case pflag.SliceValue:
			texts := make([]string, len(e.values))
			for i, v := range e.values {
				texts[i] = v.text
				c.from[fmt.Sprintf("%s[%d]", e.key.name, i)] = v.at
			}
			b.check(e.at, list.Replace(texts))
		default:
			c.from[e.key.name] = e.values[0].at
			c.set(flag, e.values[0], b)
		}
	}
}

// takeEnv puts the environment over the file.
func (c *Config) takeEnv(flags *pflag.FlagSet, env func(string) string, b *ruleBuilder) {
	for _, key := range configKeys {
		if name := key.variable(); name != "" && env(name) != "" {
			at := origin{Source: name}
			c.from[key.name] = at
			c.set(flags.Lookup(key.flagName()), value{env(name), at}, b)
		}
	}
}

// takeFlags puts the command line over both; a list that is given takes the
// place of the whole list.
func (c *Config) takeFlags(flags *pflag.FlagSet, given []givenFlag, b *ruleBuilder) {
	for _, g := range given {
		flag := flags.Lookup(g.name)
		key := keyOfFlag(g.name)
		at := origin{Source: "--" + g.name}
		c.from[key] = at
		switch list := flag.Value.(type) {
		case *ruleFlag:
			*list.rules = list.read(g.texts)
		case pflag.SliceValue:
			for i := range g.texts {
				c.from[fmt.Sprintf("%s[%d]", key, i)] = at
			}
			b.check(at, list.Replace(g.texts))
		default:
			c.set(flag, value{g.texts[0], at}, b)
		}
	}
}

// set sets a scalar as its flag would.
func (c *Config) set(flag *pflag.Flag, v value, b *ruleBuilder) {
	b.check(v.at, flag.Value.Set(v.text))
}

// build makes of the lists what the daemon takes, and checks all.
func (c *Config) build(b *ruleBuilder) {
	lists := c.ruleLists()
	for _, key := range configKeys {
		if key.kind != ruleSet {
			continue
		}
		rules := *lists[key.name]
		for i, r := range rules {
			rules[i] = b.read(key.name, r)
			c.rules[r.at.Path] = rules[i]
		}
	}
	if c.from["export"] != (origin{}) {
		c.ExportGrants = b.grants("export", c.Export)
	}
	c.AcceptGrants = b.grants("accept", c.Accept)
	c.MirrorRules = b.MirrorRules(c.Mirror)
	c.PushRules = b.PushRules(c.Push)
	for i, text := range c.Peers {
		at := c.placeOf("peers", i)
		p, err := listedPeer(text, c.Transport)
		b.check(at, err)
		c.StaticPeers = append(c.StaticPeers, p)
	}
	c.checkTransports(b)
	for i, text := range c.Domains {
		d, err := discovery.ParseDomain(text)
		b.check(c.placeOf("domains", i), err)
		c.Zones = append(c.Zones, d)
	}
	b.check(origin{}.or(c.placeOf("peers", -1)), checkListed(c.StaticPeers)) // which names the entries
	for i, text := range c.Relay {
		b.check(c.placeOf("relay", i), rule.CheckPattern("channel", text))
	}
	for i, text := range c.Adopt {
		b.check(c.placeOf("adopt", i), rule.CheckPattern("channel", text))
	}
	for i, text := range c.HTTPHosts {
		b.check(c.placeOf("http_hosts", i), checkHTTPHost(text))
	}
	if localach.CheckName(c.Name) != nil {
		b.add(c.placeOf("name", -1), "%q: want 1 to 63 of A-Z a-z 0-9 - _ . as mirrors are called NAME.CHANNEL", c.Name)
	}
	if _, err := net.ResolveUDPAddr("udp", c.Listen); err != nil {
		b.add(c.placeOf("listen", -1), "%q: want :PORT or ADDRESS:PORT, as in %s", c.Listen, defaultListen)
	}
}

// placeOf is where a key, or the i-th entry of its list, is written.
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
