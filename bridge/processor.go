package bridge

import "math"

// waitSteps is how finely a share of the time is told in which a daemon waited for a processor. In small steps it would always
// be news, also over an idle link.
const waitSteps = 20

// lookAtProcessor learns how long this process waited for a processor lately.
func (n *Node) lookAtProcessor() {
	if n.cfg.ProcessorWait == nil {
		return
	}
	n.waited = nil
	if share, known := n.cfg.ProcessorWait(n.now()); known {
		share = math.Round(share*waitSteps) / waitSteps
		n.waited = &share
	}
}

// waitedToWire turns a share into %; 0 when it is not known.
func waitedToWire(share *float64) uint8 {
	if share == nil {
		return 0
	}
	return uint8(math.Round(100 * *share))
}

func waitedFromWire(percent uint8) *float64 {
	if percent == 0 {
		return nil
	}
	share := float64(percent) / 100
	return &share
}
