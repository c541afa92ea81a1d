// Package pacing is the congestion control: it decides when packets may be sent, so that no
// queue grows on the path. It has no socket, goroutine, lock or clock: now is an argument, the
// time since the node started. So tests need no real network.
//
//	control := pacing.NewPacer(flight, session)
//	if ok, again := control.May(now, pacing.Whole, size); ok { // else call May again at again
//		number := flight.NextNumber(now)
//		flight.Sent(now, number, size, width, pieces) // tracked until acknowledged or lost
//		control.Sent(now, pacing.Whole, size)
//	}
//	control.Feedback(now, flight.Feedback(now, held, report)) // arrived and lost packets
package pacing
