package fresh

import "time"

// Outcome is what one report of the peer settles. Its slices are valid until the next
// call of Flight.
type Outcome struct {
	Arrived, Lost []Piece
	Deliveries    []Delivery // of the packets whose arrival time is known, in order of arrival
	LostPackets   int
}

// RoundTrip returns how long the packet that left at sent was on its way there and back;
// ok is false if the report does not tell.
func (o Outcome) RoundTrip(sent time.Duration) (rtt time.Duration, ok bool) {
	for _, d := range o.Deliveries {
		if d.sent == sent {
			return d.rtt, true
		}
	}
	return 0, false
}
