package doctor

import (
	"cmp"
	"context"
	"fmt"

	"achbridge/cmd/achbridge/ui"
)

// checkHub checks that the daemon is connected to the hub that it is to use.
func checkHub(_ context.Context, p *patient) result {
	switch {
	case p.daemon == nil && p.config.HubCreds != "":
		return result{State: fit, Text: "used with " + p.config.HubCreds + ", once the daemon runs"}
	case p.daemon == nil || p.daemon.Hub == nil:
		return result{State: fit, Text: "not used"}
	}
	h := p.daemon.Hub
	if !h.Connected {
		return result{State: failing, Text: cmp.Or(h.Error, "no connection to "+h.Address+" yet"), Fix: "see that the hub runs (achbridge hub check there), and that TCP to it passes the firewalls"}
	}
	return result{State: fit, Text: fmt.Sprintf("connected to %s for %s%s", h.Address, ui.Seconds(h.SinceS), h.RoundTrip())}
}
