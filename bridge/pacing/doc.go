// Package pacing decides when packets may leave, so that no queue grows on the path. It has no
// socket, goroutine, lock or clock: now is an argument, the time since the node started. So a
// test of any hard case is a plain function call.
//
//	if pacer.Next(now) <= now { // when the next packet may leave
//		number := flight.NextNumber(now)
//		flight.Sent(now, number, size, width, pieces) // kept until the peer reports
//		pacer.Sent(now, size)
//	}
//	outcome := flight.Feedback(now, held, report) // what arrived, what is lost
//	pacer.Delivered(now, outcome.Deliveries, rtt)
package pacing
