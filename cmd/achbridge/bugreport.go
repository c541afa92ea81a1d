package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/ui"
)

func bugreportCommand(a *app) *cobra.Command {
	var file, out string
	cmd := &cobra.Command{
		Use:         "bugreport",
		Short:       "Write the state of this host into a file for a bug report",
		Example:     examples("achbridge bugreport", "achbridge bugreport -o report.txt"),
		Annotations: docs("docs/troubleshooting.md"),
		Args:        takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.bugreport(cmd.Context(), file, out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write a new `FILE` (default achbridge-bugreport-HOST.txt)")
	configFlag(cmd, &file, "include configuration `FILE` (default: that of run)")
	_ = cmd.MarkFlagFilename("output", "txt")
	a.controlFlag(cmd)
	return cmd
}

// bugreport collects the report and writes it to a new file.
func (a *app) bugreport(ctx context.Context, file, out string) error {
	r := &report{private: map[string]bool{}}
	var s api.StatusReply
	_, err := a.daemon().Get(ctx, "/v1/status", &s)
	var setup api.DaemonSetup
	if err == nil {
		_, _ = a.daemon().Get(ctx, "/v1/setup", &setup)
	}
	r.section("versions", versionLine()+"\n"+systemText())
	r.hide(s)
	r.hideVariables(a.Env)
	quotable := r.configuration(cmp.Or(file, setup.Config, a.Source("", nil).Path))
	r.json("status", s, err)
	var events api.EventFollower
	list, err := events.Next(ctx, a.daemon(), 0)
	r.json("log, as events", list, err)
	var examined doctor.Report
	err = errors.New("it would quote the configuration")
	if quotable {
		host := doctor.Host{Host: a.Host, TryPorts: daemon.TryPorts}
		examined, err = doctor.Examine(ctx, host, a.control, file)
	}
	r.json("doctor", examined, err)
	if ctx.Err() != nil {
		return ui.Failure(errors.New("interrupted; nothing was written"), "")
	}
	system, _ := os.Hostname()
	path := cmp.Or(out, "achbridge-bugreport-"+cmp.Or(s.Host, config.HostName(system))+".txt")
	text := r.scrubbed()
	if err := writeNew(path, text); errors.Is(err, fs.ErrExist) {
		return ui.Failure(fmt.Errorf("%s: exists already", path), "remove it, or choose another name: -o FILE")
	} else if err != nil {
		return ui.Failure(err, "choose another place: -o FILE")
	}
	a.ui.Note("it has the names of hosts and channels, and no keys, addresses or frames; read it before you give it to others")
	return a.ui.Line("%s: %s, readable by you only; nothing was sent", path, ui.AboutBytes(len(text)))
}

// writeNew creates a file with mode 0600. It returns fs.ErrExist if path exists.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// systemText returns the kernel version and the modules that this program was built from.
func systemText() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	text := "kernel " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			text += "\n" + d.Path + " " + d.Version
		}
	}
	return text
}

// report builds the text of a bug report. private holds the texts that scrubbed removes.
type report struct {
	text    bytes.Buffer
	private map[string]bool
}

func (r *report) section(title, text string) {
	fmt.Fprintf(&r.text, "=== %s ===\n%s\n\n", title, strings.TrimRight(text, "\n"))
}

func (r *report) json(title string, v any, err error) {
	if err != nil {
		r.section(title, "none: "+err.Error())
		return
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		text = []byte(err.Error())
	}
	r.section(title, string(text))
}

// hide marks the addresses in the daemon's status as private. The address of a listed peer
// may be a DNS name.
func (r *report) hide(s api.StatusReply) {
	r.address(s.Listen)
	r.address(s.HTTP)
	r.address(strings.TrimPrefix(strings.TrimPrefix(s.Foxglove, "ws://"), "wss://"))
	if s.Hub != nil {
		r.address(s.Hub.Address)
		for _, name := range certifiedNames.FindAllStringSubmatch(s.Hub.Error, -1) {
			for name := range strings.SplitSeq(name[1], ", ") {
				r.address(name)
			}
		}
	}
	if s.Achd != nil {
		r.address(s.Achd.Listen)
	}
	for _, l := range s.Links {
		r.address(l.Addr)
	}
	for _, p := range s.Peers {
		for _, address := range append(slices.Clone(p.Addrs), p.ListedAs) {
			r.address(address)
		}
		if p.State != status.PeerLinked {
			r.address(p.Host)
		}
	}
}

// certifiedNames matches the text of x509.HostnameError. Its group holds the names in the certificate of the server that answered
// at the hub's address.
var certifiedNames = regexp.MustCompile(`certificate is valid for (.*?), not `)

// hideVariables marks the addresses in environment variables as private, because doctor quotes a variable with a bad value.
func (r *report) hideVariables(env func(string) string) {
	for _, name := range config.Variables() {
		if key := strings.ToLower(strings.TrimPrefix(name, config.EnvName(""))); !slices.Contains(shownKeys, key) {
			r.address(env(name))
		}
	}
}

// address marks text as private if it is an address, with or without a scheme, port or
// options. Text without a dot or colon counts as a host name, which the report may contain.
func (r *report) address(text string) {
	if _, rest, isURL := strings.Cut(text, "://"); isURL {
		text = rest
	}
	text, _, _ = strings.Cut(text, ",")
	text = strings.TrimSpace(text)
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.Count(text, ":") == 1 {
		host = text[:i]
	}
	for _, t := range []string{text, host} {
		if strings.ContainsAny(t, ".:") && len(t) > 3 {
			r.private[t] = true
		}
	}
	at, err := netip.ParseAddr(text)
	if port, also := netip.ParseAddrPort(text); also == nil {
		at, err = port.Addr(), nil
	}
	if err == nil && at.Is6() {
		r.private[strings.ReplaceAll(at.String(), ":", "-")] = true // the form in host and mirror names
	}
}

// shownKeys lists the configuration keys whose values contain no addresses.
var shownKeys = strings.Fields("name transport key hub_creds export relay accept adopt mirror push types interfaces discovery load_test dscp control state log")

// configuration adds a configuration file to the report, without comments and without values
// that may be addresses. It reports whether other sections may quote the file. They may not
// if the file is not YAML, because then its private texts are unknown.
func (r *report) configuration(path string) (quotable bool) {
	const title = "configuration"
	if path == "" {
		r.section(title, "no file")
		return true
	}
	text, err := os.ReadFile(path)
	keys := map[string]any{}
	if err == nil {
		err = yaml.Unmarshal(text, &keys)
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	if err != nil && !isPath {
		err = errors.New(path + ": not YAML, and left out; achbridge check says what is wrong") // the YAML error quotes the file
	}
	if err != nil {
		r.section(title, err.Error())
		return isPath
	}
	for key, v := range keys {
		switch {
		case slices.Contains(config.Keys(), key) && slices.Contains(shownKeys, key):
		case slices.Contains(config.Keys(), key) || key == "achd":
			r.hideAll(v)
			keys[key] = "(left out)"
		default: // an unknown key: its value may be a secret
			r.hideText(v)
			delete(keys, key)
		}
	}
	shown, err := yaml.Marshal(keys)
	if err != nil {
		shown = []byte(err.Error())
	}
	r.section(title, "# "+path+"\n"+string(shown))
	return true
}

// hideAll marks all addresses in a YAML value as private.
func (r *report) hideAll(v any) { eachText(v, r.address) }

// hideText marks all addresses in a YAML value as private, and all texts that may be secrets.
// Texts of less than four bytes are kept, because they also occur inside other words.
func (r *report) hideText(v any) {
	eachText(v, func(text string) {
		r.address(text)
		if len(text) >= 4 {
			r.private[text] = true
		}
	})
}

// eachText calls f with each string in a YAML value, except map keys.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachText(e, f)
		}
	case map[string]any:
		for _, e := range v {
			eachText(e, f)
		}
	}
}

// ip4Like matches text that may be an IPv4 address, also at the start of a longer name such as the mirror 10.0.0.5.camera.
var ip4Like = regexp.MustCompile(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`)

// addressLike matches text that may be an IP address, with or without a zone and port.
var addressLike = regexp.MustCompile(`[0-9A-Fa-f:.\[\]]+(%[A-Za-z0-9_.-]+)?(\]:[0-9]+)?`)

// achdHost matches an achd address. Its group holds the host and port.
var achdHost = regexp.MustCompile(`achd(?:\+udp)?://([^/,\s"']+)`)

// scrubbed returns the report with each private text and IP address replaced by "(address)".
func (r *report) scrubbed() []byte {
	const instead = "(address)"
	text := r.text.String()
	for _, found := range achdHost.FindAllStringSubmatch(text, -1) {
		r.address(found[1])
	}
	list := make([]string, 0, len(r.private))
	for t := range r.private {
		list = append(list, t)
	}
	slices.SortFunc(list, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	for _, t := range list {
		text = strings.ReplaceAll(text, t, instead)
	}
	text = ip4Like.ReplaceAllStringFunc(text, func(t string) string {
		if _, err := netip.ParseAddr(t); err != nil {
			return t
		}
		return instead
	})
	return []byte(addressLike.ReplaceAllStringFunc(text, func(t string) string {
		bare := strings.Trim(t, ".:")
		if _, err := netip.ParseAddr(strings.Trim(bare, "[]")); err == nil {
			return strings.Replace(t, bare, instead, 1)
		}
		if _, err := netip.ParseAddrPort(bare); err == nil {
			return strings.Replace(t, bare, instead, 1)
		}
		return t
	}))
}
