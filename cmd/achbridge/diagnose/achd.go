package diagnose

import (
	"cmp"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// pushByAchd returns the finding about a push to a host that only runs achd, if the push does not work.
func pushByAchd(p status.Push) Finding {
	f := Finding{Cause: cmp.Or(p.Cause, status.CauseOther), Text: fmt.Sprintf("%s does not take %s: %s", p.Host, p.Channel, cmp.Or(p.Reason, "no answer yet"))}
	switch p.Cause {
	case status.CausePeerSilent:
		f.Fix = "have achd listen there, by inetd or with achbridge run --achd"
	case status.CauseNoChannel:
		f.Fix = "make the channel there: achd makes none"
	case status.CauseAcceptRule:
		f.Fix = "have accept in the section achd of its configuration name the channel, or end its other writer"
	default:
		f.Fix = "ask again"
	}
	return f
}

// byAchd returns the finding about a mirror of a host that only runs achd. It uses only data of this host.
func (s *Snapshot) byAchd(m status.Mirror) Finding {
	a, _ := rule.ParseAchd(s.Host)
	there := fmt.Sprintf("on %s, port %s", a.Host, a.Port)
	switch m.State {
	case status.MirrorRefused:
		return s.refused(m)
	case status.MirrorLive, status.MirrorStale, status.MirrorForeignWriter:
	default:
		f := Finding{Cause: cmp.Or(m.Cause, status.CauseOther), Text: s.Name() + " does not come: " + cmp.Or(m.Reason, "its mirror has not begun; perhaps another has its name")}
		switch m.Cause {
		case status.CausePeerSilent:
			f.Fix = "have achd listen there (" + there + "), by inetd or with achbridge run --achd; another port follows the host: achd://HOST:PORT/CHANNEL"
		case status.CauseNoChannel:
			f.Fix = "start what makes the channel there: achd serves none that is not there"
		case status.CauseExportRule:
			f.Fix = "have the section achd of its configuration name this host and the channel"
		}
		return f
	}
	before, _ := MirrorOf(s.Before, s.Host, s.Channel)
	f := s.flowFrom(before, m, status.Link{})
	known := []string{"nothing proves who sends it, and how old its frames are at the origin is not known: they come by achd's protocol",
		"the counters have only the frames that came here, since achd reports none of the others"}
	if f.hz > 0 {
		came := fmt.Sprintf("%.3g frames a second come, of %s", f.hz, ui.AboutBytes(f.bytes))
		if drops := DropsText(f.frames); drops != "" {
			came += fmt.Sprintf("; in %.3g s: %s", f.s, drops)
		}
		known = append([]string{came}, known...)
	} else if m.SinceArrivalMs != nil {
		known = append([]string{"the newest frame came " + ui.Millis(*m.SinceArrivalMs) + " ago"}, known...)
	} else {
		known = append([]string{"no frame has come yet: achd sends none that was put before it was asked"}, known...)
	}
	switch {
	case m.State == status.MirrorForeignWriter:
		return s.foreignWriter(&f, before, m)
	case m.State == status.MirrorStale:
		return Finding{Cause: status.CausePublisherStopped, Text: fmt.Sprintf("no frame of %s came within its deadline of %s: its publisher, or the way here, stands still", s.Name(), unit.Time(m.QoS.Deadline)),
			Evidence: known, Fix: "look at the publisher " + there}
	}
	return Finding{Cause: Well, Text: m.Name + " gets what achd sends", Evidence: known}
}
