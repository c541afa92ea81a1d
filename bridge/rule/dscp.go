package rule

import (
	"slices"

	"achbridge/bridge/via"
)

// DSCP returns the mark of packets that carry only frames with this quality of service.
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

// SessionDSCP returns the mark of a session that carries channels with these marks: their mark if all are equal,
// otherwise best effort. A session has one mark, since a network may reorder packets with different marks (RFC 7657
// section 5.1).
func SessionDSCP(marks ...via.DSCP) via.DSCP {
	distinct := slices.Compact(slices.Sorted(slices.Values(marks)))
	if len(distinct) != 1 {
		return via.CS0
	}
	return distinct[0]
}
