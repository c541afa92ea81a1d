package config

import (
	"cmp"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/via"
)

// kind is what a key of the configuration holds.
type kind int

const (
	oneValue kind = iota
	aList
	ruleSet
)

// configKey is one key at the top of the configuration file. What reads it is
// the flag of the same meaning.
type configKey struct {
	name    string
	of      func(*Config) any // points to its value
	fixed   bool              // a running daemon does not change it
	kind    kind
	flag    string   // when it is not called as the key
	words   []string // that the value may be
	example string
	doc     string
}

func (k configKey) flagName() string { return cmp.Or(k.flag, k.name) }

// variable is the environment variable that sets the key; lists have none.
func (k configKey) variable() string {
	if k.kind != oneValue {
		return ""
	}
	return EnvName(k.name)
}

// configKeys are the keys in the order in which people read them; the schema for
// editors is made from them.
var configKeys = []configKey{
	{name: "name", of: func(c *Config) any { return &c.Name }, fixed: true, example: "krang", doc: "Name of this host for others (default: the system's host name). Mirrors of its channels are called NAME.CHANNEL."},
	{name: "listen", of: func(c *Config) any { return &c.Listen }, fixed: true, example: ":8076", doc: "UDP address and port to listen on. SCTP takes the next port."},
	{name: "transport", of: func(c *Config) any { return &c.Transport }, fixed: true, words: []string{via.Any.String(), via.QUIC.String(), via.SCTP.String()}, doc: "What links run over; auto, the default, takes QUIC, and SCTP where QUIC has no answer."},
	{name: "key", of: func(c *Config) any { return &c.Key }, fixed: true, example: "/etc/achbridge/key", doc: "File of the network's key."},
	{name: "peers", of: func(c *Config) any { return &c.Peers }, fixed: true, kind: aList, flag: "peer", example: "192.168.1.20", doc: "Hosts that are dialled at once, whatever is discovered: HOST[:PORT][,transport=quic|sctp|auto]."},
	{name: "domains", of: func(c *Config) any { return &c.Domains }, fixed: true, kind: aList, flag: "domain", example: "robots.example.com", doc: "DNS domains whose zones list hosts, by unicast DNS-SD."},
	{name: "interfaces", of: func(c *Config) any { return &c.Interfaces }, fixed: true, kind: aList, flag: "interface", example: "eth0", doc: "Network interfaces on which to discover and be discovered (default: all)."},
	{name: "discovery", of: func(c *Config) any { return &c.Discovery }, fixed: true, words: []string{"auto", "off"}, doc: "Find peers by mDNS, or only those that peers lists."},
	{name: "export", of: func(c *Config) any { return &c.ExportGrants }, kind: ruleSet, example: "imu*", doc: "Which channels of this host others may read (default: all), who may, and how much of them."},
	{name: "relay", of: func(c *Config) any { return &c.Relay }, kind: aList, example: "krang.*", doc: "Mirrors that others may read as well (default: none)."},
	{name: "accept", of: func(c *Config) any { return &c.AcceptGrants }, kind: ruleSet, example: "goal", doc: "Which channels others may push here (default: none), who may, and how they are mirrored."},
	{name: "adopt", of: func(c *Config) any { return &c.Adopt }, kind: aList, example: "goal", doc: "Existing channels, not made by achbridge, that a mirror may write into (default: none)."},
	{name: "mirror", of: func(c *Config) any { return &c.MirrorRules }, kind: ruleSet, example: "krang/*", doc: "Which channels of other hosts to have here, and how."},
	{name: "push", of: func(c *Config) any { return &c.PushRules }, kind: ruleSet, example: "goal krang", doc: "Which channels of this host other hosts are to have."},
	{name: "http", of: func(c *Config) any { return &c.HTTP }, fixed: true, example: ":9476", doc: "TCP address and port on which to serve a web page and metrics (default: off). A port alone is open to this host only."},
	{name: "http_hosts", of: func(c *Config) any { return &c.HTTPHosts }, kind: aList, flag: "http-host", example: "robot.example.com", doc: "Names by which the page and the metrics may be asked for, beside addresses, localhost and this host's name: those of a reverse proxy, or of the DNS. Requests with another name in Host get 421, so that no web page from elsewhere can read them (DNS rebinding)."},
	{name: "watch", of: func(c *Config) any { return &c.Watch }, fixed: true, example: "5%", doc: "Share of one processor that may go into looking without pause for frames that are expected, where channels have a period (default: 5%). It is done while the machine has nothing else to do; low switches it off."},
	{name: "control", of: func(c *Config) any { return &c.Control }, fixed: true, example: "/run/achbridge/control.sock", doc: "Path of the control socket."},
	{name: "state", of: func(c *Config) any { return &c.State }, fixed: true, example: "/var/lib/achbridge", doc: "Directory in which the node remembers its identity."},
	{name: "log", of: func(c *Config) any { return &c.Log }, words: []string{"debug", "info", "warn", "error"}, doc: "What is worth a line in the log."},
}

func keyNamed(name string) (configKey, bool) {
	i := slices.IndexFunc(configKeys, func(k configKey) bool { return k.name == name })
	if i < 0 {
		return configKey{}, false
	}
	return configKeys[i], true
}

// Variables are the environment variables of the keys.
func Variables() (names []string) {
	for _, k := range configKeys {
		if name := k.variable(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Keys are the keys of the configuration file.
func Keys() []string {
	names := make([]string, len(configKeys))
	for i, k := range configKeys {
		names[i] = k.name
	}
	return names
}

// ruleKey is one key of a rule.
type ruleKey struct {
	name    string
	lists   []string // whose rules take it
	many    bool     // one value or a list of them
	words   []string
	example string
	doc     string
}

// ruleKeys are the keys of rules: which channels, who, and how. Those of how are
// bridge's.
func ruleKeys() []ruleKey {
	all := []string{"export", "accept", "mirror", "push"}
	in, reads := []string{"accept", "mirror"}, []string{"accept", "mirror", "export"}
	keys := []ruleKey{
		{name: "match", lists: all, many: true, example: "imu*", doc: "Channels that the rule is for, as patterns; in mirror HOST/PATTERN. The first rule that matches a channel counts."},
		{name: "deny", lists: all, many: true, example: "debug*", doc: "In place of match: channels that are left alone, whatever other rules say, in whatever order."},
		{name: "hosts", lists: []string{"export", "accept", "push"}, many: true, example: "planner", doc: "Hosts that the rule lets read (export) or write (accept), as patterns (default: every host with the key); in push the hosts to push to."},
		{name: "as", lists: []string{"mirror", "push"}, example: "{host}.{channel}", doc: "Name of the mirror; {host} and {channel} stand for those of the origin."},
		{name: "transport", lists: []string{"mirror", "push"}, words: []string{via.QUIC.String(), via.SCTP.String()}, doc: "What the link with the hosts that the rule names runs over; it carries all channels of a host (default: as transport at the top says)."},
		{name: "file_mode", lists: in, example: "0660", doc: "Permission bits of the mirror's file when it is made (default: 0666 less the umask)."},
	}
	examples := map[string]string{"budget": "20ms", "max_rate": "200", "priority": "7", "deadline": "200ms", "on_stale": "put:/etc/achbridge/stop"}
	docs := map[string]string{
		"max_rate": "Frames a second at most, each time the newest; in export and push the most that a peer may ask for.",
		"priority": "7 goes first, 0 last; in export and push the most that a peer may ask for.",
	}
	for _, o := range rule.Options() {
		k := ruleKey{name: o.Key, lists: in, words: o.Words, example: examples[o.Key], doc: cmp.Or(docs[o.Key], sentence(o.Usage)) + " Default: " + o.Text(rule.QoS{}) + "."}
		if docs[o.Key] != "" {
			k.lists = reads
		}
		if !o.Here {
			k.lists = append(slices.Clone(k.lists), "push")
		}
		keys = append(keys, k)
	}
	return keys
}

// ruleKeysOf are the keys that the rules of a list take.
func ruleKeysOf(list string) []ruleKey {
	return slices.DeleteFunc(ruleKeys(), func(k ruleKey) bool { return !slices.Contains(k.lists, list) })
}

func sentence(text string) string { return string(text[0]-'a'+'A') + text[1:] + "." }
