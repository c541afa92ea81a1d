// Package fresh decides when packets may leave, finds out what became of them, and measures
// the age of frames. It has no socket, goroutine, lock or clock: now is an argument, a
// time.Duration since the node started. So a test of any hard case is a plain function call.
//
//	// the sender of a link
//	if pacer.Next(now) <= now { // when the next packet may leave
//		number := flight.NextNumber(now)
//		flight.Sent(now, number, size, width, pieces) // kept until the peer reports
//		pacer.Sent(now, size)
//	}
//	outcome := flight.Feedback(now, held, report) // what arrived, what is lost
//
//	// the receiver
//	receipts.Received(now, number, size, cargo)   // what the next report says
//	ages.Put(now, born, budget)                   // how old a reader's newest frame is
//
// Clock estimates how far the peer's clock is from ours. Outgoing cuts a frame into the
// parts of several packets, and Assemblies puts it together again. Each type belongs to one
// goroutine, or stands under a lock of its owner.
package fresh
