// Package mirror implements a mirror: the local copy of a channel of another host.
//
//	m := mirror.New(mirror.Config{Name: "krang.imu", Host: "krang", Channel: "imu", Dir: dir, Space: space,
//		Log: log, Events: events, Spawn: work.Go, Clock: clock}, qos, nil)
//	if err := m.Open(channel, origin, "", qos); err != nil { // plans a new file, or opens the old one
//		return err
//	}
//	feed := &mirror.Feed{Epoch: channel.Epoch, Run: run}
//	have, _ := m.Subscribe(feed, qos) // the subscription requests frames newer than have
//	...
//	_, err := m.Begin(channel.Epoch, last, have) // the origin lets us read: this creates the file
//	m.Put(mirror.Arrival{From: feed, Epoch: channel.Epoch, Seq: seq, Captured: captured, At: reading, Data: data})
//
// The node gives the mirror its subscription, the offset of the peer's clock, and whether the
// peer is silent. The mirror knows no links, and no other mirror except the output of its merge.
//
//	mirror.go     the subscription, one put        put.go        frames of mode newest
//	file.go       the file, created or reopened    put_every.go  frames of mode every, in order
//	repair.go     busy locks, damaged files        deadline.go   the deadline and the safe frame
//	foreign_writer.go    foreign writers of the file
//	metadata_channel.go  the metadata channel NAME.meta
//	putrecord.go  puts into an adopted channel     space.go      limit of shared memory
//	ages.go       ages over time                   status.go     the mirror's status
//	merge.go      mirrors of several hosts with one file
//	clock.go      the node's and the peer's clock  cause.go      the cause of an error
//	kernel_copy.go  the copy of the file in the kernel
//	late.go       which frames are late            health.go     phases, and why no frame is put
//	counters.go   the frames by outcome
package mirror
