package delivery

import "time"

// Outcome is what one report of the peer settles. Its slices are valid until the next
// call of Flight.
type Outcome struct {
	Arrived, Lost []Piece
	Deliveries    []Delivery // of the packets whose arrival time is known, in order of arrival
	LostPackets   int
	Resumed       bool // the path was silent until this report
}

// RoundTrip returns how long the packet that left at sent was on its way there and back;
// ok is false if the report does not tell.
func (o Outcome) RoundTrip(sent time.Duration) (rtt time.Duration, ok bool) {
	for _, d := range o.Deliveries {
		if d.Sent == sent {
			return d.RTT, true
		}
	}
	return 0, false
}

// HeaderBytes is what UDP, IP and QUIC add to a datagram of ours.
const HeaderBytes = 57

// Delivery describes one packet that arrived: it left at Sent by our clock and arrived
// at Arrived by the peer's. RTT is the round trip, without the time for which the peer
// held the report back; 0 means unknown.
type Delivery struct {
	Size          int
	Sent, Arrived time.Duration
	RTT           time.Duration
}
