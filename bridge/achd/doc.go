// Package achd lets programs of other hosts that know nothing but achd 2.0, the daemon of
// libach, read and write channels of this host. achd has no authentication and no encryption: the
// package serves nothing that its rules do not name, and lets nobody in whom they do not name.
//
//	s := achd.New(achd.Config{Dir: localach.Shm, NewData: watch, Command: isCommand, Log: log})
//	s.SetRules(achd.Rules{From: networks, Channels: []string{"imu*"}})
//	err := s.Run(ctx, listener)
//
// A client is there too, for hosts that have achd alone (client.go):
//
//	err := achd.Remote{Host: "robot", Port: "8076", Channel: "imu", Newest: true}.Pull(ctx, begin)
//
// A client says in lines "key: value" what it wants (header.go), gets lines back (reply.go; answer.go reads them),
// and then frames go to it (sender.go) or come from it (push.go): over TCP each behind a head of 16 bytes, over UDP each as a
// datagram of its own.
//
// Everything is bounded: connections in all and of one address, lines and bytes and seconds
// of the headers, the memory of all frames, and what waits in the kernel: no frame is read
// from the ring before the last one was acknowledged, so that the ring is the only queue. The
// channel's lock is never waited for.
package achd
