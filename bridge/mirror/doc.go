// Package mirror is one mirror: the local copy of a channel of another host.
//
//	m := mirror.New(mirror.Config{Name: "krang.imu", Host: "krang", Channel: "imu", Dir: dir, Space: space,
//		Log: log, Events: events, Spawn: work.Go, Clock: clock}, qos, nil)
//	if err := m.Open(channel, origin, "", false); err != nil { // the file is planned, or taken up again
//		return err
//	}
//	feed := &mirror.Feed{Epoch: channel.Epoch, Run: run}
//	have, _ := m.Subscribe(feed, qos, false) // the subscription asks for what is newer than have
//	...
//	_, err := m.Begin(channel.Epoch, last, have) // the origin lets us read: now the file is made
//	m.Put(mirror.Arrival{From: feed, Epoch: channel.Epoch, Seq: seq, Captured: captured, At: reading, Data: data})
//
// The mirror is told what it needs of the node: which subscription feeds it, what is known of
// the peer's clock, that nothing is heard of the host. It knows neither links nor other mirrors.
//
//	mirror.go     what the node tells it           put.go        newer, in time: put
//	file.go       the file, made and taken up      put_every.go  the same in order, of mode every
//	repair.go     locks that are taken, new files  deadline.go   stale, and the safe frame
//	contest.go    who else writes                  companion.go  NAME.meta
//	putrecord.go  what is in a file not ours       space.go      how much room mirrors take
//	ages.go       ages over time                   status.go     what it tells of itself
//	clock.go      the node's clock, the peer's     cause.go      why, from an error
package mirror
