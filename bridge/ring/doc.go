// Package ring reads the rings of local channels for all links. It notices new frames and copies the newest ones.
//
//	arrivals := ring.NewArrivals(ch, clock)      // for one subscription
//	arrivals.Watch(source, wake)                 // wake is called after a put
//	snapshots := ring.NewSnapshots(ch, res)      // for one channel
//	user := snapshots.Join(nudge)                // for each link
//	s, at, err := request.Take(snapshots, arrivals.Collect(), done)
//	s.Compressed(codec, done)                    // compressed once for all links
//	s.Release()
//
//	arrivals.go    which frames have arrived, and when
//	snapshots.go   one copy of the newest frame for all links
//	large.go       large frames, copied in a goroutine; frames that cannot be sent
//	compressed.go  a snapshot compressed once for all links
//	compress.go    the choice of a codec for a subscription's frames; decompress.go reverses it
//	budget.go      the memory limit of all copies
//	workers.go     goroutines without allocations
package ring
