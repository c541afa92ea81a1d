package bridge

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"achbridge/bridge/rule"
)

// mirrorRequests has the requests for mirrors on this host. It belongs to the node's goroutine,
// and only its methods write it.
type mirrorRequests struct {
	host       string        // name of this host
	added      []rule.Mirror // requests by Node.Mirror
	rules      rule.Mirrors
	addedMuxes rule.Muxes // requests by Node.Mux
	muxRules   rule.Muxes
	pushed     func() []rule.Mirror // returns the requests that pushes of peers have made
	temporary  []*temporaryRequest
	namePrefix string // prefix of the names of this node's temporary mirrors
	lastName   int    // number in the name of the newest temporary mirror
}

// temporaryRequest is the request of viewers, such as achbridge echo, for a temporary mirror. All
// other requests take precedence: if one of them has the channel mirrored, the viewers read that
// mirror. Otherwise the viewers get a mirror of their own. It has the lowest priority, so that it
// takes no capacity from others, and a budget that even large frames on a slow link keep. Its file
// is removed with its last viewer.
type temporaryRequest struct {
	rule.Mirror
	viewers int
}

// list returns the requests of the API, then those of the configuration, without denials.
func (r *mirrorRequests) list() []rule.Mirror {
	return slices.DeleteFunc(slices.Concat(r.added, r.rules), func(w rule.Mirror) bool { return w.Deny })
}

// withPushed returns list, then the requests that pushes of peers have made.
func (r *mirrorRequests) withPushed() []rule.Mirror { return append(r.list(), r.pushed()...) }

// denied returns an error if a rule denies mirrors of a channel. The argument what is the beginning of the error.
func (r *mirrorRequests) denied(what, host, channel string) error {
	found, ok := r.rules.Denial(host, channel)
	if !ok {
		return nil
	}
	return fmt.Errorf("%s%s/%s: %s denies it", what, host, channel, cmp.Or(found.From, "the configuration"))
}

// find returns the request for a channel of a host; false if there is none or a rule denies it.
// The channels of this host are the outputs of its muxes and merges; no mirror has their names. The order of
// precedence is: requests that name the channel, merges, pushes of the host, requests with
// patterns, temporary mirrors. Requests of the API take precedence over those of the configuration. In the
// configuration the first matching rule applies.
func (r *mirrorRequests) find(host, channel string) (rule.Mirror, bool) {
	if host == r.host {
		if m, ok := r.muxes().For(channel); ok {
			return m.AsMirror(host), true
		}
		w, ok := r.rules.MergeInto(channel)
		return w.AsOutput(host), ok
	}
	w, ok := r.findMirror(host, channel)
	if ok && !w.Merge && r.outputText(w.Into(host, channel)) != "" {
		return rule.Mirror{}, false
	}
	return w, ok
}

// outputText describes a channel that is the output of a mux or of a merge. It returns "" for other channels.
func (r *mirrorRequests) outputText(channel string) string {
	if _, ok := r.muxes().For(channel); ok {
		return "the output of a mux"
	}
	if _, ok := r.rules.MergeInto(channel); ok {
		return "the output of a merge"
	}
	return ""
}

// findMirror is find for channels of other hosts, whatever the muxes.
func (r *mirrorRequests) findMirror(host, channel string) (rule.Mirror, bool) {
	if _, no := r.rules.Denial(host, channel); no {
		return rule.Mirror{}, false
	}
	exactly := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	covers := func(w rule.Mirror) bool { return !w.Deny && w.Covers(host, channel) }
	found, ruled := r.rules.For(host, channel)
	if w, ok := firstOf(r.added, exactly); ok {
		return w, true
	}
	if ruled && (exactly(found) || found.Merge) {
		return found, true
	}
	if w, ok := firstOf(r.pushed(), exactly); ok {
		return w, true
	}
	if w, ok := firstOf(r.added, covers); ok {
		return w, true
	}
	if ruled {
		return found, true
	}
	if t := r.findTemporary(host, channel); t != nil {
		return t.Mirror, true
	}
	return rule.Mirror{}, false
}

func firstOf[T any](list []T, is func(T) bool) (first T, ok bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return first, false
	}
	return list[i], true
}

// isFor reports whether the request for a channel asks for a mirror with this name.
func (r *mirrorRequests) isFor(name, host, channel string) bool {
	w, ok := r.find(host, channel)
	return ok && w.Name(host, channel) == name
}

// broughtBy returns "" if a request of this host names the channel, and otherwise host. The memory
// of channels that no request names is limited for each host, since the host decides how large
// they are.
func (r *mirrorRequests) broughtBy(host, channel string) string {
	names := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	if r.findTemporary(host, channel) != nil || slices.ContainsFunc(r.list(), names) {
		return ""
	}
	return host
}

// named returns the channels of a host that requests name exactly.
func (r *mirrorRequests) named(host string) map[string]bool {
	list := make(map[string]bool)
	for _, w := range r.withPushed() {
		if w.Host == host && !rule.IsPattern(w.Channel) {
			list[w.Channel] = true
		}
	}
	for _, t := range r.temporary {
		if t.Host == host {
			list[t.Channel] = true
		}
	}
	return list
}

// writer returns the host that a request wants to feed the mirror called name, "" if there is
// none. It ignores requests for the given channel of the given host.
func (r *mirrorRequests) writer(name, host, channel string) string {
	for _, w := range r.withPushed() {
		exact := !rule.IsPattern(w.Host) && !rule.IsPattern(w.Channel)
		if exact && !w.Merge && w.Name(w.Host, w.Channel) == name && (w.Host != host || w.Channel != channel) {
			return w.Host
		}
	}
	return ""
}

// add adds a request of the API. It replaces a request for the same host and channel.
func (r *mirrorRequests) add(m rule.Mirror) error {
	if err := r.denied("mirror ", m.Host, m.Channel); err != nil {
		return err
	}
	if m.Host == r.host {
		return fmt.Errorf("mirror %s/%s: %s is this host; its programs open %s itself", m.Host, m.Channel, m.Host, m.Channel)
	}
	if m.Merge {
		return fmt.Errorf("mirror %s/%s: a merge needs a rule in the configuration, in the list merge", m.Host, m.Channel)
	}
	if text := r.outputText(m.Name(m.Host, m.Channel)); text != "" {
		return fmt.Errorf("mirror %s/%s: %s is %s; choose another name with --as", m.Host, m.Channel, m.Name(m.Host, m.Channel), text)
	}
	if i := slices.IndexFunc(r.added, isRequestFor(m)); i >= 0 {
		r.added[i] = m
	} else {
		r.added = append(r.added, m)
	}
	return nil
}

// isRequestFor returns a function that reports whether a request has the host and the channel of m.
func isRequestFor(m rule.Mirror) func(rule.Mirror) bool {
	return func(w rule.Mirror) bool { return !w.Deny && w.Host == m.Host && w.Channel == m.Channel }
}

// remove removes the requests for the host and the channel of m. It returns false if there are none.
func (r *mirrorRequests) remove(m rule.Mirror) bool {
	before := len(r.added) + len(r.rules)
	r.added = slices.DeleteFunc(slices.Clone(r.added), isRequestFor(m))
	r.rules = slices.DeleteFunc(slices.Clone(r.rules), isRequestFor(m))
	return len(r.added)+len(r.rules) < before
}

// whyNotRemoved returns the error for a request that does not exist.
func (r *mirrorRequests) whyNotRemoved(m rule.Mirror) error {
	if w, ok := firstOf(r.list(), func(w rule.Mirror) bool { return w.Covers(m.Host, m.Channel) }); ok {
		return fmt.Errorf("unmirror %s/%s: %s/%s includes it; unmirror that instead", m.Host, m.Channel, w.Host, w.Channel)
	}
	return fmt.Errorf("%s/%s is not mirrored; `achbridge status -v` lists the mirrors%.0w", m.Host, m.Channel, fs.ErrNotExist)
}

// muxes returns the muxes of the API, then those of the configuration that have other outputs.
func (r *mirrorRequests) muxes() rule.Muxes {
	if len(r.addedMuxes) == 0 {
		return r.muxRules
	}
	list := slices.Clone(r.addedMuxes)
	for _, m := range r.muxRules {
		if _, ok := r.addedMuxes.For(m.Output); !ok {
			list = append(list, m)
		}
	}
	return list
}

// addMux adds a mux of the API. It replaces one with the same output.
func (r *mirrorRequests) addMux(m rule.Mux) {
	r.addedMuxes = append(r.addedMuxes.Without(m.Output), m)
}

// removeMux removes the mux with an output.
func (r *mirrorRequests) removeMux(output string) error {
	if _, ok := r.muxes().For(output); !ok {
		return fmt.Errorf("no mux has the output %s; `achbridge status -v` lists the muxes%.0w", output, fs.ErrNotExist)
	}
	r.addedMuxes, r.muxRules = r.addedMuxes.Without(output), r.muxRules.Without(output)
	return nil
}

// addTemporary adds a viewer of a channel.
func (r *mirrorRequests) addTemporary(w rule.Mirror) error {
	if err := r.denied("", w.Host, w.Channel); err != nil {
		return err
	}
	found, ok := r.find(w.Host, w.Channel)
	if found.Merge {
		return fmt.Errorf("%s/%s: its frames go into %s, together with those of other hosts; read that channel", w.Host, w.Channel, found.Output())
	}
	if !ok && rule.IsAchd(w.Host) {
		return fmt.Errorf("%s/%s: achd has no authentication, so nothing is asked of it without a rule; mirror it first: achbridge mirror %s/%s", w.Host, w.Channel, w.Host, w.Channel)
	}
	if t := r.findTemporary(w.Host, w.Channel); t != nil {
		t.viewers++
		return nil
	}
	r.lastName++
	w.As = fmt.Sprintf("%s%d", r.namePrefix, r.lastName)
	r.temporary = append(r.temporary, &temporaryRequest{Mirror: w, viewers: 1})
	return nil
}

// endTemporary removes a viewer of a channel.
func (r *mirrorRequests) endTemporary(host, channel string) {
	r.temporary = slices.DeleteFunc(r.temporary, func(t *temporaryRequest) bool {
		if t.Host != host || t.Channel != channel {
			return false
		}
		t.viewers--
		return t.viewers == 0
	})
}

// findTemporary returns the request for a temporary mirror of a channel, nil if there is none.
func (r *mirrorRequests) findTemporary(host, channel string) *temporaryRequest {
	t, _ := firstOf(r.temporary, func(t *temporaryRequest) bool { return t.Host == host && t.Channel == channel })
	return t
}
