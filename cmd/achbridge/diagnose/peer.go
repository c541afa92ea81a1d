package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// unlinked returns the finding why there is no working link to a host; false if there is one.
func (s *Snapshot) unlinked(host string) (Finding, bool) {
	l, linked := LinkOf(s.After, host)
	if linked && l.State != status.LinkSilent {
		return Finding{}, false
	}
	for _, own := range s.ownCertificate() {
		return own, true
	}
	if linked {
		return Finding{
			Cause: status.CausePeerSilent, Text: fmt.Sprintf("nothing has been received from %s for %.1f s", host, l.SilentS),
			Evidence: []string{fmt.Sprintf("the link to %s over %s was up for %s", l.Addr, l.Transport, ui.Seconds(l.UpS))},
			Fix:      "check the cable or radio, and that the host and its daemon run",
		}, true
	}
	if s.Around.Hub != "" && s.atHub(host) {
		return Finding{
			Cause: status.CausePeerSilent, Text: host + " is reached only through the hub, to which this host has no connection", Evidence: []string{s.Around.Hub},
			Fix: "achbridge hub check where the hub is; and TCP to it has to pass the firewalls",
		}, true
	}
	f, ok := s.dialled(host)
	if !ok {
		f = s.unseen(host)
	}
	if s.Around.Hub != "" {
		f.Evidence = append(f.Evidence, "nor is it reached through the hub: "+s.Around.Hub)
	}
	return f, true
}

// atHub reports whether a host is known only from the hub.
func (s *Snapshot) atHub(host string) (only bool) {
	for _, p := range s.After.Peers {
		if p.Host == host {
			if only = slices.Equal(p.Addrs, []string{status.AtHub}); !only {
				return false
			}
		}
	}
	return only
}

// ownCertificate returns the problem of this host's own certificate.
func (s *Snapshot) ownCertificate() []Finding {
	switch {
	case s.Around.Revoked:
		return []Finding{{Cause: status.CauseRevoked, Text: "the certificate of this host is revoked: nobody links with it",
			Fix: "achbridge ca issue " + s.After.Host + ", where the authority is, and copy the key here"}}
	case s.Around.Ended != "":
		return []Finding{{Cause: status.CauseCertificate, Text: "the certificate of this host ended on " + s.Around.Ended + ": nobody links with it",
			Fix: "achbridge ca issue " + s.After.Host + ", where the authority is, and copy the key here; or set the clock right"}}
	}
	return nil
}

// dialled returns the finding about a known peer that is, or may be, the host and has no link,
// or false if there is no such peer.
func (s *Snapshot) dialled(host string) (Finding, bool) {
	var is, may []status.Peer // peers that are the host for certain, and peers that may be
	for _, p := range s.After.Peers {
		switch {
		case p.State == status.PeerLinked && p.ListedAs == host:
			return Finding{
				Cause: status.CausePeerMissing, Text: fmt.Sprintf("the peer that is listed as %s is host %s", host, p.Host),
				Fix: fmt.Sprintf("use that name in rules and requests: achbridge mirror %s/%s, then achbridge mirror %s --off", p.Host, s.Channel, s.Name()),
			}, true
		case p.State == status.PeerLinked:
		case p.Host == host:
			is = append(is, p)
		case p.Node == "" && p.Error != "": // listed by its address and never reached: it may be the host
			may = append(may, p)
		}
	}
	if may = append(is, may...); len(may) == 0 {
		return Finding{}, false
	}
	p := may[0]
	at := strings.Join(p.Addrs, ", ")
	f := Finding{Cause: p.Cause, Text: fmt.Sprintf("%s does not answer at %s", host, at)}
	if p.Host != host {
		f.Text = fmt.Sprintf("no host %s is known; the listed peer %s does not answer", host, p.Host)
	}
	if p.Error != "" {
		f.Evidence = append(f.Evidence, p.Error)
	}
	if p.State == status.PeerMissed {
		f.Evidence = append(f.Evidence, "it does not announce itself any more")
	}
	switch p.Cause {
	case "":
		f.Cause, f.Text, f.Fix = status.CausePeerSilent, fmt.Sprintf("%s is known at %s and not linked yet: %s", host, at, p.State), "ask again"
	case status.CauseKey:
		f.Text = host + " refuses this host, or is refused: they have different keys"
		f.Fix = "achbridge key show on both: the network must be the same; copy the key file"
	case status.CauseRevoked, status.CauseCertificate:
		return s.certificate(host, p, f), true
	default:
		f.Fix = "is the host on, does its daemon run (achbridge status there), and does its firewall let the UDP port in?"
	}
	return f, true
}

// certificate completes the finding about a certificate, of this host or of the peer, that the other end refuses.
func (s *Snapshot) certificate(host string, p status.Peer, f Finding) Finding {
	whose, copied := host, "there"
	if p.OwnCertificate {
		whose, copied = s.After.Host, "here"
	}
	f.Text = "the certificate of " + whose + " is revoked"
	f.Fix = "achbridge ca issue " + whose + ", where the authority is, and copy the key " + copied
	if p.Cause == status.CauseCertificate {
		f.Text = "the certificate of " + whose + " is not valid now"
		f.Fix += "; or set the clock right, on both hosts: date"
	}
	if p.OwnCertificate {
		f.Text += ", says " + host
	}
	return f
}

// unseen returns the finding about a host that was never seen.
func (s *Snapshot) unseen(host string) Finding {
	a := s.Around
	f := Finding{Cause: status.CausePeerMissing, Text: "no host " + host + " has been seen"}
	switch {
	case a.Far != "":
		f.Text, f.Fix = a.Far, a.FarFix
		return f
	case a.OtherNetwork != "":
		f.Cause, f.Text = status.CauseKey, fmt.Sprintf("%s is there with another key", host)
		f.Evidence = append(f.Evidence, fmt.Sprintf("it belongs to network %s, this host to %s", a.OtherNetwork, a.Network))
		f.Fix = "copy the key file of one to the other: achbridge key show says where it is"
		return f
	case !a.Discovery:
		f.Evidence = append(f.Evidence, "discovery is off here, and no such peer is listed")
		f.Fix = "list it: --peer " + host + ", or have it discovered"
		return f
	case len(a.Multicast) > 0:
		f.Cause, f.Text = status.CauseMulticast, "multicast fails on this host, and no host "+host+" is listed"
		f.Evidence = a.Multicast
		f.Fix = "achbridge doctor; or list it: --peer " + host
		return f
	case a.Answers != "":
		f.Cause, f.Text = status.CauseMulticast, fmt.Sprintf("%s answers at %s, and nothing of it comes by multicast", host, a.Answers)
		f.Evidence = append(f.Evidence, "multicast works on this host: it is blocked on the way (switch, Wi-Fi, firewall), or discovery is off there")
		f.Fix = "list it: --peer " + host
		return f
	}
	f.Text += ui.DidYouMean(host, a.Seen)
	f.Evidence = append(f.Evidence, seenText(a))
	f.Fix = "is it on, and does its daemon run? if so multicast may be blocked on the way: list it by its address, --peer ADDRESS"
	return f
}

func seenText(a Surroundings) string {
	switch {
	case len(a.Seen) > 0:
		return "seen are " + ui.AndList(a.Seen)
	case a.Searched:
		return "no host at all is seen, and multicast works on this one"
	}
	return "no host at all is seen"
}
