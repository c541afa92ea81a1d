package delivery

import "time"

// Outcome lists the pieces and packets that one report of the peer settles. Its slices are
// valid until the next call of Flight.
type Outcome struct {
	Arrived, Lost []Piece
	Deliveries    []Delivery // packets whose arrival time is known, in order of arrival
	LostPackets   int
	Resumed       bool // the path was silent until this report
}

// RoundTrip returns the round-trip time of the packet that was sent at sent. ok is false if
// the report does not have its arrival time.
func (o Outcome) RoundTrip(sent time.Duration) (rtt time.Duration, ok bool) {
	for _, d := range o.Deliveries {
		if d.Sent == sent {
			return d.RTT, true
		}
	}
	return 0, false
}

// HeaderBytes is the size of the UDP, IP and QUIC headers of one datagram.
const HeaderBytes = 57

// Delivery describes one packet that arrived. Sent is by our clock, Arrived by the peer's.
// RTT is the round-trip time without the delay of the peer's report; 0 means unknown.
type Delivery struct {
	Size          int
	Sent, Arrived time.Duration
	RTT           time.Duration
}
