// Package kept stores the newest frames of channels on disk, and puts them back after a reboot.
//
//	k := kept.New(dir, "/var/lib/achbridge/frames")
//	frame, err := k.Frame("map", geometry)      // for a channel that is created now
//	isPut, err := k.Add("map", geometry, frame) // before the node watches channels, so that the frame's age is unknown
//	k.Run(ctx, report)                          // stores new frames, at most once a second
//
// A file always holds one complete frame, even after the process was killed or the power failed: it is written under another name,
// synced and renamed. Its first line has the name of the channel, its geometry, and a checksum of the file.
//
//	file.go    the content of a file
//	keeper.go  which frames are stored and put back, and when
package kept
