// Package layouts requests the layouts of peers' channels, caches them, answers requests for layouts, and compares
// frames with them.
//
// A peer's catalog has only the hash of a channel's layout. When a user of this host wants to see values, Requests sends
// wire.Describe for the layout itself. Cache keeps the layouts that peers have sent. AnswerLimit bounds the layouts sent
// to a peer.
//
//	cache := new(layouts.Cache)
//	requests := layouts.NewRequests(cache, ask) // one for each link
//	r := requests.Add(now, hash, "imu")               // nil: too many
//	<-r.Done()                                        // after requests.Receive, Refuse, Send or Close
//
// All methods except Request.Done and Request.Answer belong to the node's goroutine. No method blocks.
package layouts
