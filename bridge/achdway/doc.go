// Package achdway carries channels from and to hosts that have achd and no achbridge, each over a connection of its own.
//
//	hosts := achdway.NewHosts(ctx, achdway.Config{…})  // of a node
//	c := hosts.Consume(m, qos, fed)                    // feeds a mirror; Requalify, CheckFile, Stop
//	p := hosts.Publish(push, report)                   // sends a local channel; Stop
//
// Nothing proves who answers at an address, and the age of frames and the number of those never sent are unknown. All methods
// belong to the node's goroutine.
//
//	hosts.go      what this package needs of the node; one connection after the other
//	consumer.go   a mirror's frames
//	publisher.go  a channel's frames
package achdway
