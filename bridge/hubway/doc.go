// Package hubway carries frames between hosts through a hub, which keeps the newest frame of each channel.
//
//	publishers := hubway.NewPublishers(ctx, hubway.Config{…})    // of a node
//	s := publishers.Subscribe(ch, hubway.Request{…})             // a peer's subscription to a local channel
//	c := hubway.NewConsumer(ctx, spawn, hubway.ConsumerConfig{…}) // feeds a mirror; SetKey when the origin sends one
//
// The hub is untrusted. A publisher seals each frame with a key that it sends only to its subscribers, over control
// streams that the hub cannot read. A Consumer puts only frames sealed with that key.
//
//	hub.go           Hub and Channel: what this package needs of a hub
//	publishers.go    who may subscribe, and the publishers by channel
//	publisher.go     one channel: seal, put, acknowledge
//	load.go          when, and which frame
//	subscription.go  the frame counters of one subscriber
//	rate.go          no faster than the fastest subscriber takes it
//	keys.go          the key of a channel
//	consumer.go      fetch, open, put into the mirror
package hubway
