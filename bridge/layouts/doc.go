// Package layouts asks peers for the layouts of their channels, caches and answers them, and compares frames with them.
//
// A peer's catalog has only the hash of a channel's layout. Requests sends wire.Describe for the layout itself when a user of
// this host wants to see values. Cache keeps what the peers have answered. AnswerLimit bounds what a peer is answered.
//
//	cache := new(layouts.Cache)
//	requests := layouts.NewRequests(cache, ask) // one for each link
//	r := requests.Add(now, hash, "imu")               // nil: too many
//	<-r.Done()                                        // after requests.Receive, Refuse, Send or Close
//
// All but Request.Done and Request.Answer belongs to the node's goroutine. Nothing blocks.
package layouts
