// Package localach reads and writes Ach channels, in the same files and by the same rules as libach, the original C library.
// Programs that use either share channels without noticing a difference.
//
//	channel, err := localach.Shm.Open("imu")           // or Shm.Create("imu", localach.CreateConfig{})
//	defer channel.Close()
//	writer, reader := channel.Writer(), channel.Reader()
//	defer writer.Close()
//	seq, err := writer.Put(frame)                      // never waits for a reader
//	n, err := reader.Next(buf, time.Second)            // the newest frame not returned before
//	n, err = reader.NextOldest(buf, 0)                 // the oldest not returned before, for readers that need all frames
//	err = localach.Shm.Watch(ctx, func(e localach.Event) { … }) // channels that appear and vanish
//
// A channel is a file in /dev/shm: a header with a lock, a ring of index entries, and a ring of bytes. TestVectors replays
// its layout and rules, recorded from libach 2.0.0. Dantam and Stilman, "Ach: IPC for Real-Time Robot Control", give its
// purpose: a controller gets the newest sample at once, however many older ones it has not read, and a publisher never waits
// for its subscribers. This is the only package of the module that uses cgo.
//
// # Five rules
//
// We are a guest in the memory of somebody's control loop.
//
//   - Never wait on a channel's condition variable. With glibc up to 2.40, a process that is killed while it waits there
//     leaves the variable in a state in which a broadcast never returns. We notice new data by polling last_seq (Watcher, or
//     Next with a wait). For the same reason we broadcast in a goroutine of its own, and only when a reader waits.
//   - Never use the C library's functions for locks or condition variables on shared memory: they end the process when a
//     futex call fails, and any program that may write the file can cause that. Lock and broadcast are our own code (lock.c,
//     cond.c). Every wait in them is bounded, and every failure is an error.
//   - Every wait for a lock is bounded: 100 ms, then ErrBusy. The lock is polled before we queue for it, since an owner with a
//     queue has to make a system call to unlock. If we die while we hold the lock, the kernel releases it (lock.c).
//   - Nothing read from the file is trusted. Counts, offsets and sizes are checked before use and against those found at
//     opening, loops are bounded by the number of entries, a put is planned on copies before it changes anything, and a file
//     truncated under us is an error (guard.c turns SIGBUS into one), as is one that was replaced, removed or initialised
//     again (Channel.Check).
//   - No Go code runs while a lock is held. Lock, copy and unlock are one C call, which allocates nothing, causes no page
//     fault and calls nothing back. Signals are not masked: the two system calls for that would take longer than the whole
//     put, and the Go runtime's signal handlers run for only a few microseconds.
//
// # Locks and holes
//
// On x86-64 Next reads the newest frame without the lock, so that a reader never delays the writer; get.c says why that is
// correct. Elsewhere every read takes the lock. libach can overwrite a frame that its index still lists, if the frame is
// larger than the nominal frame size. No reader can detect that, with or without the lock.
//
// A frame of 16 KiB or more that lies in a hole of the file gives ErrHole: no program ever put it. See hole.go.
//
// # What we leave in a file
//
// In a channel of another program we leave only what put and get leave. In a mirror we also leave its Tag, in header words
// that libach reserves, sets to zero and never reads (bytes 144 to 199).
package localach
