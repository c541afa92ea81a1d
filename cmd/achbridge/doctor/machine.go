package doctor

import (
	"context"
	"fmt"
	"strings"

	"achbridge/cmd/achbridge/diagnose"
)

// checkMachine checks that no two machines that the daemon knows have the same node id.
func checkMachine(_ context.Context, p *patient) result {
	if p.daemon == nil {
		return result{State: fit, Text: "not known: no daemon runs"}
	}
	var copies []string
	if p.daemon.Copied != "" {
		copies = append(copies, p.daemon.Copied)
	}
	for _, l := range p.daemon.Links {
		if l.CopyAt != "" {
			copies = append(copies, fmt.Sprintf("a machine at %s has the node id of %s at %s", l.CopyAt, l.Peer, l.Addr))
		}
	}
	if len(copies) > 0 {
		return result{State: doubt, Text: strings.Join(copies, "; "), Fix: diagnose.CopiedFix}
	}
	return result{State: fit, Text: "no other machine with the node id of this host or of a linked one was seen"}
}
