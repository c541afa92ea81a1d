// Package publish puts test data into new channels, for `achbridge publish`.
//
//	streams, err := publish.ParseStreams([]string{"imu:1000:64"})
//	err = publish.Run(ctx, publish.Config{Dir: localach.Shm, Streams: streams, Log: log})
//
// The files:
//
//	stream.go     the channels that the user names, and the layout of their frames
//	claim.go      the right to write a channel, and the file that shows it
//	publish.go    all channels, from their claim to their removal
//	feed.go       the puts of one channel
//	frame.go      the content of a frame
//	metronome.go  exact periods
package publish
