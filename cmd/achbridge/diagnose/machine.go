package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
)

// CopiedFix is the fix for two machines that have the same node id.
const CopiedFix = "a copied image? on one of the two: another --name, remove the file node from its state directory, and start the daemon again; " +
	"with an authority, give it a key of its own as well: achbridge ca issue"

// copiedPeer returns the finding that another machine has the node id of a linked host.
func copiedPeer(l status.Link) Finding {
	return Finding{
		Cause: status.CauseCopiedImage, Text: fmt.Sprintf("two machines have the node id of %s: the one that is linked, at %s, and one at %s", l.Peer, l.Addr, l.CopyAt),
		Evidence: []string{"mirrors stay with the one that is linked, until it is silent for 2 s"}, Fix: CopiedFix,
	}
}

// copiedHere returns the finding that another machine has the node id of this host.
func copiedHere(s status.Report) Finding {
	return Finding{
		Cause: status.CauseCopiedImage, Text: "another machine has the node id of this host", Evidence: []string{s.Copied}, Fix: CopiedFix,
	}
}

// copies returns the findings that another machine has the node id of this host, or of a linked host that about selects.
func copies(s status.Report, about func(host string) bool) (list []Finding) {
	if s.Copied != "" {
		list = append(list, copiedHere(s))
	}
	for _, l := range s.Links {
		if l.CopyAt != "" && about(l.Peer) {
			list = append(list, copiedPeer(l))
		}
	}
	return list
}

// acceptFix returns the fix for a command or push that waits because its host runs on another machine
// than before. The fix is for the host that sends the command or push.
func acceptFix(channel, host string) string {
	return fmt.Sprintf("if it is the machine that you mean: achbridge push %s %s --accept-machine", channel, host)
}
