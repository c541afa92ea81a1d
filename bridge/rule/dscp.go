package rule

import (
	"slices"

	"achbridge/bridge/via"
)

// DSCP returns the mark for packets whose frames all have this quality of service.
func (q QoS) DSCP() via.DSCP {
	switch level := q.Priority.Level(); {
	case q.Class == Command:
		return via.CS6
	case level >= 6:
		return via.AF41
	case level <= 1:
		return via.CS1
	}
	return via.CS0
}

// SessionDSCP returns the mark for the packets of a session whose channels have the given marks: the common mark if all are equal,
// otherwise best effort. All packets of a session get one mark, since a network may reorder packets with different marks (RFC
// 7657, section 5.1).
func SessionDSCP(marks ...via.DSCP) via.DSCP {
	distinct := slices.Compact(slices.Sorted(slices.Values(marks)))
	if len(distinct) != 1 {
		return via.CS0
	}
	return distinct[0]
}
