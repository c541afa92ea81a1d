// Package achdway exchanges channels with hosts that run achd but not achbridge. Each channel has its own connection.
//
//	hosts := achdway.NewHosts(ctx, achdway.Config{…})  // of a node
//	c := hosts.Consume(m, qos, fed)                    // feeds a mirror; Requalify, CheckFile, Stop
//	p := hosts.Publish(push, report)                   // sends a local channel; Stop
//
// A host is not authenticated, and neither the age of frames nor the number of frames that were never sent is known. All
// methods belong to the node's goroutine.
//
//	hosts.go      what this package needs of the node; one connection after the other
//	consumer.go   a mirror's frames
//	line.go       one connection, and its standby while the host is silent
//	publisher.go  a channel's frames
package achdway
