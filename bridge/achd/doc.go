// Package achd lets programs of other hosts read and write channels of this host with achd 2.0, the daemon of libach.
// achd has no authentication and no encryption. The package serves only channels and hosts that its rules name.
//
//	s := achd.New(achd.Config{Dir: localach.Shm, NewData: watch, Command: isCommand, Log: log})
//	s.SetRules(achd.Rules{From: networks, Channels: []string{"imu*"}})
//	err := s.Run(ctx, listener)
//
// The package also has a client, for hosts that run achd but not achbridge (client.go):
//
//	err := achd.Remote{Host: "robot", Port: "8076", Channel: "imu", Newest: true}.Pull(ctx, begin)
//
// A client sends its request as lines "key: value" (header.go), and receives lines as the answer (reply.go; answer.go
// parses them). Then frames are sent to the client (sender.go) or received from it (push.go). Over TCP each frame
// follows a head of 16 bytes; over UDP each frame is one datagram.
//
// All resources are limited: the connections (in total and by address), the lines, bytes and seconds of the headers, the
// memory of all frames, and the data queued in the kernel. No frame is read from the ring before the previous one was
// acknowledged, so that the ring is the only queue. The package never waits for the channel's lock.
package achd
