package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
)

// Settings has the values of `run`'s flags. The environment and the file set the same values,
// with the same texts.
type Settings struct {
	Name            string
	Listen          string
	Transport       via.Kind
	Key             string
	Export          []ruleEntry
	Relay           []string
	Accept          []ruleEntry
	Adopt           []string
	Mirror          []ruleEntry
	Merge           []ruleEntry
	Push            []ruleEntry
	Mux             []ruleEntry
	Channels        []ruleEntry
	Types           []typeRule
	Peers           []string
	Domains         []string
	Hub             string
	HubCreds        string
	Interfaces      []string
	Discovery       AutoOrOff // auto: find peers by mDNS, in addition to those of domains and listed ones
	HTTP            string
	HTTPHosts       []string
	FoxgloveListen  string
	FoxgloveCert    string
	FoxgloveOrigins []string
	AchdListen      string
	AchdFrom        []string
	AchdChannels    []string
	AchdAccept      []string
	// Settings of the section record.
	RecordKeep     time.Duration
	RecordChannels []string
	RecordMemory   ui.Size
	RecordDir      string
	RecordQuota    ui.Size
	RecordAfter    time.Duration
	RecordHold     time.Duration
	RecordOn       []string
	RecordWhen     []ruleEntry
	RecordFiles    bool
	Kernel         Kernel
	LoadTest       bool
	DSCP           AutoOrOff
	ForgetAfter    time.Duration
	Control        string
	State          string
	Log            LogLevel
}

const defaultListen = ":8076"

func Defaults() Settings {
	host, _ := os.Hostname()
	return Settings{
		Name:      HostName(host),
		Listen:    defaultListen,
		Transport: via.Any,
		Discovery: true,
		LoadTest:  true,
		DSCP:      true,

		RecordMemory: 256 << 20,
		RecordQuota:  1 << 30,
		RecordAfter:  10 * time.Second,
		RecordHold:   time.Minute,
	}
}

// HostName is the default name of this host: its system name up to the first dot.
func HostName(system string) string {
	name, _, _ := strings.Cut(system, ".")
	return discovery.HostName(name)
}

// ruleLists maps the keys of the rule lists to the lists.
func (s *Settings) ruleLists() map[string]*[]ruleEntry {
	return map[string]*[]ruleEntry{"export": &s.Export, "accept": &s.Accept, "mirror": &s.Mirror, "merge": &s.Merge, "push": &s.Push, "mux": &s.Mux, "channels": &s.Channels, "record.when": &s.RecordWhen}
}

// Flags defines the flags of `run` with s as their values.
func (s *Settings) Flags(f *pflag.FlagSet) {
	f.SortFlags = false
	rules := func(name, usage string) { f.Var(&ruleFlag{name, s.ruleLists()[name]}, name, usage) }
	f.StringVar(&s.Name, "name", s.Name, "call this host `NAME`")
	f.StringVar(&s.Listen, "listen", s.Listen, "listen on UDP `ADDRESS:PORT`")
	f.Var(TransportFlag(&s.Transport), "transport", "use quic, sctp or auto: QUIC, else SCTP")
	f.StringVar(&s.Key, "key", s.Key, "read the key from `FILE` (default: see man page)")
	rules("mirror", "mirror `HOST/PATTERN[,KEY=VALUE]` here (default none)")
	rules("merge", "put `HOST/CHANNEL` of several hosts into one (default none)")
	rules("push", "offer `\"CHANNEL HOST[/NAME]\"` to that host (default none)")
	rules("mux", "merge channels: `\"OUTPUT INPUT,KEY=VALUE ...\"` (default none)")
	rules("export", "let peers read channels `PATTERN[,KEY=VALUE]` (default all)")
	f.StringArrayVar(&s.Relay, "relay", nil, "let peers also read mirrors `PATTERN` (default none)")
	rules("accept", "let peers push into `PATTERN[,KEY=VALUE]` (default none)")
	f.StringArrayVar(&s.Adopt, "adopt", nil, "let mirrors use existing channels `PATTERN` (default none)")
	f.StringArrayVar(&s.Peers, "peer", nil, "dial `PEER` at once, as in krang:8076 (default: discovered)")
	f.StringArrayVar(&s.Domains, "domain", nil, "find peers also in DNS zone `DOMAIN` (default: only mDNS)")
	f.Var(parsed[string]{&s.Hub, "URL", parseHubAddress, itself}, "hub", "use the hub at tls://HOST[:PORT] (default: of --hub-creds)")
	f.StringVar(&s.HubCreds, "hub-creds", s.HubCreds, "read the hub credentials from `FILE` (default: use no hub)")
	f.StringArrayVar(&s.Interfaces, "interface", nil, "find peers by mDNS on `INTERFACE` (default all)")
	f.Var(&s.Discovery, "discovery", "find peers by mDNS: auto or off")
	f.Var(new(noDiscovery), "no-discovery", "do not find peers by mDNS, as --discovery=off")
	f.Lookup("no-discovery").NoOptDefVal = "true"
	f.Var(AddressFlag(&s.HTTP, ":9476"), "http", "serve web page and metrics at `ADDRESS:PORT` (default off)")
	f.StringArrayVar(&s.HTTPHosts, "http-host", nil, "also allow host `NAME` in the page's URL (default none)")
	f.Var(AddressFlag(&s.FoxgloveListen, ":8765"), "foxglove", "serve channels to Foxglove at `ADDRESS:PORT` (default off)")
	f.StringVar(&s.FoxgloveCert, "foxglove-cert", s.FoxgloveCert, "give Foxglove the TLS certificate in `FILE` (default none)")
	f.StringArrayVar(&s.FoxgloveOrigins, "foxglove-origin", nil, "also let pages of `ORIGIN` connect (default none)")
	f.Var(AddressFlag(&s.AchdListen, ":8076"), "achd", "serve achd's protocol at TCP `ADDRESS:PORT` (default off)")
	f.Var(parsed[Kernel]{&s.Kernel, "USE", parseKernel, Kernel.String}, "kernel", "use kernel channels: true, mirror; can crash (default false)")
	f.Lookup("kernel").NoOptDefVal = "true"
	f.BoolVar(&s.LoadTest, "load-test", s.LoadTest, "let peers test these links; =false refuses")
	f.Var(&s.DSCP, "dscp", "mark packets for Wi-Fi queues: auto or off")
	f.Var(parsed[time.Duration]{&s.ForgetAfter, "TIME", parseForgetAfter, forgetAfterText}, "forget-after", "remove the mirrors of hosts gone for `TIME`")
	f.StringVar(&s.Control, "control", s.Control, "create the control socket `PATH` (default: see man page)")
	f.StringVar(&s.State, "state", s.State, "keep the node's identity in `DIR` (default: see man page)")
	f.Var(&s.Log, "log", "log from `LEVEL` up: debug, info, warn, error")
}

// onlyInFile defines what the file's settings without a flag are parsed by.
func (s *Settings) onlyInFile(f *pflag.FlagSet) {
	f.Var(&ruleFlag{"channels", &s.Channels}, "channels", "")
	f.StringArrayVar(&s.AchdFrom, "achd.from", nil, "")
	f.StringArrayVar(&s.AchdChannels, "achd.channels", nil, "")
	f.StringArrayVar(&s.AchdAccept, "achd.accept", nil, "")
	f.DurationVar(&s.RecordKeep, "record-keep", s.RecordKeep, "")
	f.StringArrayVar(&s.RecordChannels, "record.channels", nil, "")
	f.Var(&s.RecordMemory, "record-memory", "")
	f.StringVar(&s.RecordDir, "record-dir", s.RecordDir, "")
	f.Var(&s.RecordQuota, "record-quota", "")
	f.DurationVar(&s.RecordAfter, "record-after", s.RecordAfter, "")
	f.DurationVar(&s.RecordHold, "record-hold", s.RecordHold, "")
	f.StringArrayVar(&s.RecordOn, "record.on", nil, "")
	f.BoolVar(&s.RecordFiles, "record-files", s.RecordFiles, "")
	f.Var(&ruleFlag{"record.when", &s.RecordWhen}, "record.when", "")
}

// parseForgetAfter parses a time of at least a minute, or never.
func parseForgetAfter(text string) (time.Duration, error) {
	if text == "never" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute {
		return 0, fmt.Errorf("%q: want a time of 1m at least, as in 24h, or never", text)
	}
	return d, nil
}

func forgetAfterText(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return d.String()
}

// keyOfFlag is the key of the file with the same meaning as a flag.
func keyOfFlag(flag string) string {
	for _, k := range configKeys {
		if k.flagName() == flag {
			return k.name
		}
	}
	return flag
}

// givenFlags are the flags that were set on the command line and have a key.
func givenFlags(flags *pflag.FlagSet) (given []givenFlag) {
	flags.Visit(func(f *pflag.Flag) {
		_, hasKey := keyNamed(keyOfFlag(f.Name))
		if _, off := f.Value.(*noDiscovery); !hasKey && !off {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = append(given, givenFlag{f.Name, list.GetSlice()})
		} else {
			given = append(given, givenFlag{f.Name, []string{f.Value.String()}})
		}
	})
	return given
}

// ParseDomains parses a list of DNS domains. Its error joins one error for each bad entry; each
// begins with the text of the parameter what.
func ParseDomains(what string, list []string) (domains []discovery.Domain, err error) {
	var errs []error
	for _, text := range list {
		d, err := discovery.ParseDomain(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", what, err))
		}
		domains = append(domains, d)
	}
	return domains, errors.Join(errs...)
}

// ruleFlag is a flag that adds a rule to a list.
type ruleFlag struct {
	name  string
	rules *[]ruleEntry
}

func (r *ruleFlag) String() string { return "" }
func (r *ruleFlag) Type() string   { return "stringArray" }

func (r *ruleFlag) Set(text string) error { return r.Append(text) }

func (r *ruleFlag) Append(text string) error {
	*r.rules = r.read(append(r.GetSlice(), text))
	return nil
}

func (r *ruleFlag) Replace(texts []string) error {
	*r.rules = r.read(texts)
	return nil
}

func (r *ruleFlag) GetSlice() (texts []string) {
	for _, entry := range *r.rules {
		texts = append(texts, entry.text)
	}
	return texts
}

// read turns texts of the command line into entries.
func (r *ruleFlag) read(texts []string) []ruleEntry {
	rules := make([]ruleEntry, len(texts))
	for i, text := range texts {
		rules[i] = ruleEntry{text: text, at: origin{Source: "--" + r.name, Path: fmt.Sprintf("%s[%d]", r.name, i)}}
	}
	return rules
}

// LogLevel is the lowest level of the lines in the log.
type LogLevel struct{ slog.Level }

func (l *LogLevel) String() string { return strings.ToLower(l.Level.String()) }
func (l *LogLevel) Type() string   { return "LEVEL" }

func (l *LogLevel) Set(text string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, text) {
		return fmt.Errorf("%q: want debug, info, warn or error", text)
	}
	return l.UnmarshalText([]byte(text))
}

// AutoOrOff is the value of a setting that is either auto or off.
type AutoOrOff bool

func (d AutoOrOff) String() string {
	if d {
		return "auto"
	}
	return "off"
}

func (d *AutoOrOff) Type() string { return "MODE" }

func (d *AutoOrOff) Set(text string) error {
	if text != "auto" && text != "off" {
		return fmt.Errorf("%q: want auto or off", text)
	}
	*d = text == "auto"
	return nil
}

// noDiscovery is the flag --no-discovery.
type noDiscovery bool

func (n *noDiscovery) Type() string   { return "bool" }
func (n *noDiscovery) String() string { return strconv.FormatBool(bool(*n)) }

func (n *noDiscovery) Set(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("want true or false, not %q", text)
	}
	*n = text == "true"
	return nil
}
