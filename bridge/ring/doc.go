// Package ring reads the rings of local channels for all links: when frames arrive, and copies of the newest ones.
//
//	arrivals := ring.NewArrivals(ch, clock)      // of one subscription
//	arrivals.Watch(source, tell)                 // tell is called after a put
//	snapshots := ring.NewSnapshots(ch, res)      // of one channel
//	user := snapshots.Join(nudge)                // for each link
//	s, at, err := request.Take(snapshots, arrivals.Collect(), done)
//	s.Compressed(codec, done)                    // once for all links
//	s.Release()
//
//	arrivals.go    which frames have arrived, and when
//	snapshots.go   one copy of the newest frame for all links
//	large.go       frames that a goroutine copies; frames that cannot be sent
//	compressed.go  a snapshot compressed once for all links
//	compress.go    whether and by which codec a subscription's frames are compressed; decompress.go
//	budget.go      the memory of all copies
//	workers.go     goroutines without allocations
package ring
