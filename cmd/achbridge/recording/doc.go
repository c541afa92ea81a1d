// Package recording writes the frames of Ach channels into MCAP files, reads them, and
// puts them back into channels. MCAP (https://mcap.dev) is what Foxglove and the mcap
// tools open.
//
// # What is in a file
//
// One topic for each channel, named after it; an Ach name has no '/', so no channel is
// called as ours:
//
//	achbridge/drops   what did not get into the file, or into a mirror, as JSON:
//	                  {"channel":"krang.imu","cause":"missed","count":3,"total":17}.
//	                  Cause missed: the recorder was too late. The others are those of
//	                  the daemon's ledger (superseded, lost, …), looked at every second.
//
// A message is one frame: its bytes, without an encoding or a schema. Its sequence is the
// low half of the number that Ach gave the frame. Its log time is when the recorder read
// it; its publish time when it was captured at its origin, where a mirror with option meta
// tells that (bridge.Meta), else the log time. Both count from the recorder's start by the
// monotonic clock: a wall clock that is set meanwhile shifts nothing.
//
// The metadata of a topic are ach (the channel's name), host, frame_count, frame_size,
// mode (permissions), and where known origin (HOST/CHANNEL of a mirror) and times (origin,
// where publish times are known). The file's own metadata record is called achbridge.
//
// # What a crash leaves
//
// Frames are written in chunks, compressed by zstd, of a MiB or of what came in a second.
// A recorder that is killed leaves whole chunks and maybe a part of one: the reader takes
// all whole ones and says that the file was cut short. When the machine itself goes, what
// the kernel had not written yet is gone too.
//
//	recorder.go  rings -> queue                channels.go  which ones, as they come and go
//	stream.go    one channel, as it is read    ledger.go    what did not get into mirrors
//	queue.go     queue -> files                files.go     one after the other: rotation
//	writer.go    one file, in chunks           reader.go    a file, as it is read
//	player.go    a file -> channels            ahead.go     frames in order of their capture
//	summary.go   what is in a file
package recording
