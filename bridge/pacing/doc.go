// Package pacing decides when packets may leave, so that no queue grows on the path. It has no
// socket, goroutine, lock or clock: now is an argument, the time since the node started. So a
// test of any hard case is a plain function call.
//
//	control := pacing.NewPacer(flight, session)
//	if ok, again := control.May(now, pacing.Whole, size); ok { // else ask again then
//		number := flight.NextNumber(now)
//		flight.Sent(now, number, size, width, pieces) // kept until the peer reports
//		control.Sent(now, pacing.Whole, size)
//	}
//	control.Feedback(now, flight.Feedback(now, held, report)) // what arrived, what is lost
package pacing
