// Package recording writes the frames of Ach channels into MCAP files, reads them, and
// puts them back into channels. MCAP (https://mcap.dev) is what Foxglove and the mcap
// tools open.
//
// # What is in a file
//
// There is one topic for each channel, with the channel's name. Other topics are ours; their
// names have a '/', which no Ach name has:
//
//	achbridge/drops   frames that did not reach the file, or a mirror, as JSON:
//	                  {"channel":"krang.imu","cause":"missed","count":3,"total":17}.
//	                  Cause missed: the recorder was too late. The other causes are those
//	                  of the daemon's counters (superseded, lost, …), read every second.
//
// A snapshot of the flight recorder, which a daemon runs, also has:
//
//	achbridge/ages    the age of each recorded mirror once a second, as JSON:
//	                  {"channel":"krang.imu","origin":"krang/imu","age_ms":4.2,"state":"live"}
//	achbridge/events  the daemon's events, as achbridge events --json prints them. The
//	                  trigger of the snapshot is an event of kind snapshot, with seq 0.
//
// A message is one frame: its bytes. A channel with a layout has a schema, which describes the bytes without changing
// them. Its encoding is ros1msg for structs (see package ros1msg; the messages have encoding ros1), and protobuf for protobuf
// messages. A frame that does not match the layout is in a second topic of the same name, without a schema, so that
// no program decodes it wrongly. A message's sequence is the
// low half of the number that Ach gave the frame. Its log time is when the recorder read it.
// Its publish time is when it was captured at its origin, if the channel is a mirror with
// option meta (bridge.Meta); else it is the log time. Both count from the recorder's start by
// the monotonic clock, so setting the wall clock shifts nothing.
//
// The metadata of a topic are ach (the channel's name), host, frame_count, frame_size,
// mode (permissions), and where known origin (HOST/CHANNEL of a mirror) and times (origin,
// where publish times are known); misfit (true, where the frames do not match the layout); of a
// channel with a layout type, layout (the text of its file), type_from (file, or origin if the
// mirror's origin sent it), renamed (the fields with other names in the schema) and no_schema
// (the reason why there is no schema). A mirror with the option stamps has its rule in stamps, and in stamps_clock_ns what
// CLOCK_MONOTONIC showed at the file's time 0. The file's own metadata record is called achbridge.
// In a snapshot, its entry trigger has the reason.
//
// # What a crash leaves
//
// Frames are written in chunks of a MiB or of one second, compressed by zstd.
// A recorder that is killed leaves whole chunks and maybe a part of one. The reader reads the
// whole chunks and reports that the file was cut short. When the machine itself fails, the
// chunks that the kernel had not yet written are lost too.
//
//	recorder.go  rings -> queue                channels.go  which channels to record
//	stream.go    one channel, as it is read    counters.go  what did not get into mirrors
//	queue.go     queue -> files                files.go     one after the other: rotation
//	writer.go    one file, in chunks           reader.go    a file, as it is read
//	player.go    a file -> channels
//	summary.go   a file -> its content in figures
//	type.go      what frames hold              typed.go     which channel has which type
//	stamps.go    time stamps in frames
//	own_topics.go       our own topics
//	memory_recorder.go  queue -> memory          condition.go       triggers on fields
//	snapshot.go         memory -> a file         snapshot_files.go  those of triggers: quota
//	ring_files.go       memory -> files that survive this process
//	values_file.go  a file with converted frames, for other programs
package recording
