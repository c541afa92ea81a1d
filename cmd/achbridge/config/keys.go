package config

import (
	"cmp"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/ui"
)

// kind is the kind of content of a key: one value, a list or rules.
type kind int

const (
	oneValue kind = iota
	aList
	ruleSet
	aMap // patterns of channels, each with layouts; it has no flag
)

// configKey is one key at the top level of the configuration file. The flag with the same
// meaning parses its value.
type configKey struct {
	name    string            // SECTION.KEY for a key in a section
	of      func(*Config) any // returns a pointer to the value
	fixed   bool              // changes take effect only after a restart
	kind    kind
	flag    string   // name of the flag, if it differs from the key
	words   []string // allowed values; nil means any
	example string
	doc     string
}

func (k configKey) flagName() string { return cmp.Or(k.flag, k.name) }

// variable returns the environment variable that sets the key; "" for lists, which have none.
func (k configKey) variable() string {
	if k.kind != oneValue {
		return ""
	}
	return EnvName(k.flagName())
}

// section returns the parent key in the file; "" for the top level.
func (k configKey) section() string {
	section, _, below := strings.Cut(k.name, ".")
	if !below {
		return ""
	}
	return section
}

// configKeys are the keys in the order of the documentation. The schema for editors is made
// from them.
var configKeys = []configKey{
	{name: "name", of: func(c *Config) any { return &c.Name }, fixed: true, example: "krang", doc: "Name of this host for others (default: the system's host name). Mirrors of its channels are called NAME.CHANNEL."},
	{name: "listen", of: func(c *Config) any { return &c.Listen }, fixed: true, example: ":8076", doc: "UDP address and port to listen on. SCTP takes the next port."},
	{name: "transport", of: func(c *Config) any { return &c.Transport }, fixed: true, words: []string{via.Any.String(), via.QUIC.String(), via.SCTP.String()}, doc: "Protocol of the links; auto, the default, uses QUIC, and SCTP where QUIC gets no answer."},
	{name: "key", of: func(c *Config) any { return &c.Key }, fixed: true, example: "/etc/achbridge/key", doc: "File of the network's key."},
	{name: "peers", of: func(c *Config) any { return &c.Peers }, fixed: true, kind: aList, flag: "peer", example: "192.168.1.20", doc: "Hosts to dial at once, without waiting for discovery: HOST[:PORT][,transport=quic|sctp|auto]."},
	{name: "domains", of: func(c *Config) any { return &c.Domains }, fixed: true, kind: aList, flag: "domain", example: "robots.example.com", doc: "DNS domains whose zones list hosts, by unicast DNS-SD."},
	{name: "hub", of: func(c *Config) any { return &c.Hub }, fixed: true, example: "tls://hub.example.com", doc: "Where the hub is by which hosts are reached that have no path (default: what hub_creds says)."},
	{name: "hub_creds", of: func(c *Config) any { return &c.HubCreds }, fixed: true, flag: "hub-creds", example: "/etc/achbridge/robot.creds", doc: "File with this host's credentials for the hub, as achbridge hub add writes it (default: no hub is used)."},
	{name: "interfaces", of: func(c *Config) any { return &c.Interfaces }, fixed: true, kind: aList, flag: "interface", example: "eth0", doc: "Network interfaces on which to discover and be discovered (default: all)."},
	{name: "discovery", of: func(c *Config) any { return &c.Discovery }, fixed: true, words: []string{"auto", "off"}, doc: "Find peers by mDNS, or only those that peers lists."},
	{name: "export", of: func(c *Config) any { return &c.ExportGrants }, kind: ruleSet, example: "imu*", doc: "Which channels of this host others may read (default: all), who may, and how much of them."},
	{name: "relay", of: func(c *Config) any { return &c.Relay }, kind: aList, example: "krang.*", doc: "Mirrors that others may read as well (default: none)."},
	{name: "accept", of: func(c *Config) any { return &c.AcceptGrants }, kind: ruleSet, example: "goal", doc: "Which channels others may push here (default: none), who may, and how they are mirrored."},
	{name: "adopt", of: func(c *Config) any { return &c.Adopt }, kind: aList, example: "goal", doc: "Existing channels, not made by achbridge, that a mirror may write into (default: none)."},
	{name: "mirror", of: func(c *Config) any { return &c.ownMirrors }, kind: ruleSet, example: "krang/*", doc: "Which channels of other hosts to mirror here, and how."},
	{name: "merge", of: func(c *Config) any { return &c.mergeRules }, kind: ruleSet, example: "*/event", doc: "Channels of other hosts whose frames go into one channel here, in order of arrival and each frame once. The metadata channel OUTPUT.meta names the host and the number of each frame. Has precedence over mirror."},
	{name: "push", of: func(c *Config) any { return &c.PushRules }, kind: ruleSet, example: "goal krang", doc: "Which channels of this host to have other hosts mirror."},
	{name: "mux", of: func(c *Config) any { return &c.MuxRules }, kind: ruleSet, example: "ref teleop,expiry=sns planner,live=200ms", doc: "Outputs: channels of this host that get the frames of the first of several input channels that is live."},
	{name: "channels", of: func(c *Config) any { return &c.ChannelRules }, fixed: true, kind: ruleSet, example: "map,frames=10,size=3000", doc: "Channels of this host that the daemon creates when it starts. An existing channel is left as it is."},
	{name: "types", of: func(c *Config) any { return &c.Types }, kind: aMap, example: "types/imu.yaml", doc: "Layouts of frames, by pattern of channels. A layout is a file, relative to this one; a list of files, of which the first that fits a frame applies; files by the value of a field, as in {by: header.kind, 1: types/imu.yaml}; or a protobuf message, as in {proto: robot.proto, message: robot.State}. achbridge type import makes such files; echo shows the values. Hosts that mirror a channel get its layout."},
	{name: "http", of: func(c *Config) any { return &c.HTTP }, fixed: true, example: ":9476", doc: "TCP address and port on which to serve a web page and metrics (default: off). A port alone is open to this host only."},
	{name: "http_hosts", of: func(c *Config) any { return &c.HTTPHosts }, kind: aList, flag: "http-host", example: "robot.example.com", doc: "Names under which browsers may ask for the page and the metrics, beside addresses, localhost and this host's name: for example the name of a reverse proxy. Requests with another name in Host get 421, so that no foreign web page can read them (DNS rebinding)."},
	{name: "foxglove.listen", of: func(c *Config) any { return &c.FoxgloveListen }, fixed: true, flag: "foxglove", example: ":8765", doc: "TCP address and port at which Foxglove and other viewers read the channels of this host (default: off). A port alone is open to this host only; other addresses need cert. Viewers need the token, see docs/viewers.md."},
	{name: "foxglove.cert", of: func(c *Config) any { return &c.FoxgloveCert }, fixed: true, flag: "foxglove-cert", example: "/etc/achbridge/foxglove.pem", doc: "PEM file with the TLS certificate for viewers and its private key (default: no TLS)."},
	{name: "foxglove.origins", of: func(c *Config) any { return &c.FoxgloveOrigins }, kind: aList, flag: "foxglove-origin", example: "https://foxglove.example.com", doc: "Origins of web pages that may connect as viewers, as browsers send them, in addition to https://app.foxglove.dev. Programs that are no browsers need only the token."},
	{name: "achd.listen", of: func(c *Config) any { return &c.AchdListen }, fixed: true, flag: "achd", example: ":8076", doc: "TCP address and port at which programs that speak achd's protocol may connect (default: off). It knows neither who they are nor encryption."},
	{name: "achd.from", of: func(c *Config) any { return &c.AchdFrom }, kind: aList, example: "192.168.1.0/24", doc: "Networks and addresses whose hosts may connect by achd's protocol (default: none)."},
	{name: "achd.channels", of: func(c *Config) any { return &c.AchdChannels }, kind: aList, example: "imu*", doc: "Channels of this host that they may read (default: none); never one of class command."},
	{name: "achd.accept", of: func(c *Config) any { return &c.AchdAccept }, kind: aList, example: "goal", doc: "Channels of this host that they may write, one at a time (default: none): former mirrors, and channels that adopt names; never one of class command."},
	{name: "record.keep", of: func(c *Config) any { return &c.Recorder.Keep }, fixed: true, flag: "record-keep", example: "60s", doc: "Hold the frames of this time in memory, 1s to 1h, for achbridge snapshot and for triggers (default: no flight recorder)."},
	{name: "record.channels", of: func(c *Config) any { return &c.Recorder.Channels }, fixed: true, kind: aList, example: "robot.*", doc: "Channels of this host and mirrors that the flight recorder holds, as patterns (default: all)."},
	{name: "record.memory", of: func(c *Config) any { return &c.Recorder.Memory }, fixed: true, flag: "record-memory", example: "256MiB", doc: "Limit of the memory for frames (default: 256MiB). When it is full, the oldest frames are removed."},
	{name: "record.files", of: func(c *Config) any { return &c.Recorder.Files }, fixed: true, flag: "record-files", words: []string{"false", "true"}, doc: "Write the frames into files in dir too, every second, so that they are left when the daemon is killed (default: false). The next start makes snapshots of them."},
	{name: "record.after", of: func(c *Config) any { return &c.Recorder.After }, fixed: true, flag: "record-after", example: "10s", doc: "Time after a trigger that its snapshot covers too (default: 10s). A trigger in that time extends the snapshot."},
	{name: "record.on", of: func(c *Config) any { return &c.Recorder.On }, fixed: true, kind: aList, example: "deadline_missed", doc: "Events that write a snapshot: " + ui.OrList(RecordEvents) + " (default: none)."},
	{name: "record.when", of: func(c *Config) any { return &c.Recorder.When }, fixed: true, kind: ruleSet, example: "robot.imu,field=acc.z,above=30", doc: "Conditions on fields that write a snapshot when they begin to hold (default: none)."},
	{name: "record.hold", of: func(c *Config) any { return &c.Recorder.Hold }, fixed: true, flag: "record-hold", example: "60s", doc: "Time in which the same event or condition does not trigger again (default: 1m)."},
	{name: "record.dir", of: func(c *Config) any { return &c.Recorder.Folder }, fixed: true, flag: "record-dir", example: "/var/lib/achbridge/snapshots", doc: "Directory for the snapshots of triggers (default: snapshots in the state directory)."},
	{name: "record.quota", of: func(c *Config) any { return &c.Recorder.Quota }, fixed: true, flag: "record-quota", example: "1GiB", doc: "Limit of the snapshots in dir (default: 1GiB). The oldest are removed first."},
	{name: "kernel", of: func(c *Config) any { return &c.Kernel }, fixed: true, words: []string{"false", "true", "mirror"}, doc: "Export channels of the kernel's Ach module as well (true), and also make each mirror of at most 256 KiB a kernel channel too (mirror; default: false). The kernel can crash if a program creates a channel without a pause after it removed one: a fault of the module."},
	{name: "load_test", of: func(c *Config) any { return &c.LoadTest }, words: []string{"false", "true"}, flag: "load-test", doc: "Allow load tests of this host's links (achbridge ping HOST --load), one at a time and 10 s a minute for all hosts together (default: true)."},
	{name: "dscp", of: func(c *Config) any { return &c.DSCP }, words: []string{"auto", "off"}, doc: "Mark packets with a DSCP by class and priority of the channels that a link carries, for the queues of Wi-Fi (WMM), or send all as best effort (default: auto). See docs/transport.md."},
	{name: "forget_after", of: func(c *Config) any { return &c.ForgetAfter }, flag: "forget-after", example: "24h", doc: "Time without a link after which a host is forgotten, as by achbridge forget: its mirrors are removed, unless a rule names the host without a pattern (default: never)."},
	{name: "control", of: func(c *Config) any { return &c.Control }, fixed: true, example: "/run/achbridge/control.sock", doc: "Path of the control socket."},
	{name: "state", of: func(c *Config) any { return &c.State }, fixed: true, example: "/var/lib/achbridge", doc: "Directory for the node's identity, and for the newest frames of channels with keep."},
	{name: "log", of: func(c *Config) any { return &c.Log }, words: []string{"debug", "info", "warn", "error"}, doc: "Least level of the lines in the log."},
}

func keyNamed(name string) (configKey, bool) {
	i := slices.IndexFunc(configKeys, func(k configKey) bool { return k.name == name })
	if i < 0 {
		return configKey{}, false
	}
	return configKeys[i], true
}

// Variables returns the environment variables of the keys.
func Variables() (names []string) {
	for _, k := range configKeys {
		if name := k.variable(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Keys returns the keys of the configuration file at its top level.
func Keys() []string {
	var names []string
	for _, k := range configKeys {
		name, _, _ := strings.Cut(k.name, ".")
		names = append(names, name)
	}
	return slices.Compact(names)
}

// keysIn returns the keys of a section; none if there is no such section.
func keysIn(section string) (names []string) {
	for _, k := range configKeys {
		if k.section() == section && section != "" {
			names = append(names, strings.TrimPrefix(k.name, section+"."))
		}
	}
	return names
}

// ruleKey is one key of a rule.
type ruleKey struct {
	name    string
	lists   []string // the lists whose rules may have it
	many    bool     // one value or a list of them
	words   []string
	example string
	doc     string
}

// ruleKeys are the keys of rules: the channels, the hosts, and the options. The options are
// those of package rule.
func ruleKeys() []ruleKey {
	all := []string{"export", "accept", "mirror", "push"}
	merges := []string{"priority", "compress", "deadline", "stamps"}
	in, reads := []string{"accept", "mirror"}, []string{"accept", "mirror", "export"}
	keys := []ruleKey{
		{name: "match", lists: append(slices.Clone(all), "merge"), many: true, example: "imu*", doc: "Patterns of the channels that the rule is for; in mirror HOST/PATTERN, in merge HOST/CHANNEL. The first rule that matches a channel applies."},
		{name: "deny", lists: all, many: true, example: "debug*", doc: "In place of match: patterns of channels that no rule of this list may apply to, whatever its place in the list."},
		{name: "hosts", lists: []string{"export", "accept", "push"}, many: true, example: "planner", doc: "Hosts that the rule lets read (export) or write (accept), as patterns (default: every host with the key); in push the hosts to push to."},
		{name: "as", lists: []string{"mirror", "merge", "push"}, example: "{host}.{channel}", doc: "Name of the mirror; {host} and {channel} stand for those of the origin. In merge, name of the output (default: all.{channel})."},
		{name: "transport", lists: []string{"mirror", "merge", "push"}, words: []string{via.QUIC.String(), via.SCTP.String()}, doc: "Protocol of the link with the rule's hosts. One link carries all channels of a host (default: the value of transport at the top level)."},
		{name: "output", lists: []string{"mux"}, example: "ref", doc: "Channel that the mux writes. Nothing else may write it."},
		{name: "inputs", lists: []string{"mux"}, many: true, example: "teleop,expiry=sns", doc: "Channels of this host or mirrors, the first with the highest priority: CHANNEL,expiry=sns|somatic|FIELDS, whose frames have their expiry in stamps, or CHANNEL,live=TIME, whose frames are live for this time after their capture. With ,operator=true frames are live only while a host holds the channel's operator lock."},
		{name: "safe", lists: []string{"mux"}, example: "/etc/achbridge/stop", doc: "File with the frame that is put once when no input is live (default: none)."},
		{name: "hold", lists: []string{"mux"}, example: "500ms", doc: "How long an input that was live and expired must be live again before it wins (default: 0s)."},
		{name: "catch_up", lists: []string{"mux"}, words: []string{"false", "true"}, doc: "Put the last live frame of an input when it begins to win, and not only its next one (default: false)."},
		{name: "file_mode", lists: append(slices.Clone(in), "merge", "mux"), example: "0660", doc: "Permission bits of the mirror's file when it is made (default: 0666 less the umask)."},
	}
	keys = append(keys, channelKeys()...)
	keys = append(keys, recordKeys()...)
	examples := map[string]string{"budget": "20ms", "max_rate": "200", "priority": "7", "deadline": "200ms", "on_stale": "put:/etc/achbridge/stop"}
	docs := map[string]string{
		"max_rate": "Frames a second at most, each the newest at its time; in export and push the most that a peer may ask for.",
		"priority": "7 is sent first, 0 last; in export and push the most that a peer may ask for.",
	}
	keys = append(keys, lockKeys()...)
	keys = append(keys, ruleKey{name: rule.PresetKey, lists: append(slices.Clone(in), "push"), words: rule.PresetNames(), doc: "Options to begin with; those that the rule writes out have precedence. " + presetsText() + " (default: state)."})
	for _, o := range rule.Options() {
		k := ruleKey{name: o.Key, lists: in, words: o.Words, example: examples[o.Key], doc: cmp.Or(docs[o.Key], sentence(o.Usage)) + " Default: " + o.Text(rule.QoS{}) + "."}
		if docs[o.Key] != "" {
			k.lists = reads
		}
		if !o.Here {
			k.lists = append(slices.Clone(k.lists), "push")
		}
		if slices.Contains(merges, o.Key) {
			k.lists = append(slices.Clone(k.lists), "merge")
		}
		if o.Key == "meta" {
			k.lists = append(slices.Clone(k.lists), "mux")
		}
		keys = append(keys, k)
	}
	return keys
}

// presetsText lists the options of each preset.
func presetsText() string {
	var texts []string
	for _, name := range rule.PresetNames() {
		var sets []string
		for _, s := range rule.PresetSettings(name) {
			sets = append(sets, s.Key+" "+s.Value)
		}
		texts = append(texts, name+": "+strings.Join(sets, ", "))
	}
	return strings.Join(texts, "; ")
}

// lockKeys returns the keys of the operator lock, which accept rules may have.
func lockKeys() []ruleKey {
	accept := []string{"accept"}
	return []ruleKey{
		{name: "operator", lists: accept, words: []string{"false", "true"}, doc: "Accept pushes only from the host that holds the channel's operator lock, see achbridge take (default: false)."},
		{name: "operators", lists: accept, many: true, example: "planner", doc: "With operator: hosts that may take the lock, as patterns (default: those that may push)."},
		{name: "force", lists: accept, many: true, example: "supervisor", doc: "With operator: hosts among them that may take the lock from another host with --force (default: none)."},
		{name: "grace", lists: accept, example: "1s", doc: "With operator: how long the holder keeps the lock while nothing comes from it, 500ms to 1h (default: 1s)."},
	}
}

// channelKeys returns the keys of channels to create.
func channelKeys() []ruleKey {
	channels := []string{"channels"}
	return []ruleKey{
		{name: "name", lists: channels, example: "map", doc: "Name of the channel."},
		{name: "frames", lists: channels, example: "10", doc: "Number of frames that the channel holds, as ach mk -m (default: 16)."},
		{name: "size", lists: channels, example: "3000", doc: "Nominal size of a frame in bytes, or with a unit as in 64KiB, as ach mk -n (default: 512)."},
		{name: "mode", lists: channels, example: "0660", doc: "Permission bits of the channel's file, as ach mk -o (default: 0666 less the umask)."},
		{name: "group", lists: channels, example: "ach", doc: "Group of the channel's file. The daemon's user must be in it (default: the daemon's group)."},
		{name: "keep", lists: channels, words: []string{"last"}, doc: "Store the newest frame in the state directory, at most once a second, and put it back after a reboot, with unknown age (default: no). Not for commands, for pushes with stamps, or for channels that another host or a mux may write."},
	}
}

// ruleKeysOf returns the keys that the rules of a list may have.
func ruleKeysOf(list string) []ruleKey {
	return slices.DeleteFunc(ruleKeys(), func(k ruleKey) bool { return !slices.Contains(k.lists, list) })
}

func sentence(text string) string { return string(text[0]-'a'+'A') + text[1:] + "." }
