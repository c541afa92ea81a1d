// Package localach reads and writes Ach channels, in the same files and by the same rules as libach, the original C library.
// Programs of both libraries can share channels.
//
//	channel, err := localach.Shm.Open("imu")           // or Shm.Create("imu", localach.CreateConfig{})
//	defer channel.Close()
//	writer, reader := channel.Writer(), channel.Reader()
//	defer writer.Close()
//	seq, err := writer.Put(frame)                      // never waits for a reader
//	n, err := reader.Next(buf, time.Second)            // the newest frame not returned before
//	n, err = reader.NextOldest(buf, 0)                 // the oldest frame not returned before, for readers of all frames
//	err = localach.Shm.Watch(ctx, func(e localach.Event) { … }) // reports channels that appear and vanish
//
// A channel is a file in /dev/shm with a header that contains a lock, a ring of index entries, and a ring of bytes. TestVectors
// replays operations that were recorded from libach 2.0.0. Dantam and Stilman, "Ach: IPC for Real-Time Robot Control", describe
// the purpose: a controller gets the newest sample at once, however many older ones it has not read, and a publisher never waits
// for its subscribers. This is the only package of the module that uses cgo.
//
// # Five rules
//
// The package shares memory with control loops of other programs, so it must not disturb them:
//
//   - Never wait on a channel's condition variable. With glibc up to 2.40, a process that is killed while it waits there
//     leaves the variable in a state in which a broadcast never returns. The package notices new data by polling last_seq
//     (Watcher, or Next with a wait). For the same reason it broadcasts in a separate goroutine, and only if a reader waits.
//   - Never use the C library's functions for locks or condition variables on shared memory. They abort the process if a
//     futex call fails, and any program that may write the file can cause that. Lock and broadcast are our own code (lock.c,
//     cond.c). All waits in them are bounded, and all failures are errors.
//   - Bound every wait for a lock: ErrBusy after 100 ms. The lock is polled before we queue for it, since an owner with a
//     queue has to make a system call to unlock. If the process dies while it holds the lock, the kernel releases it (lock.c).
//   - Trust nothing in the file. Counts, offsets and sizes are checked before use and compared with those at opening. Loops
//     are bounded by the number of entries. A put is planned on copies before it changes anything. A truncated file is an
//     error (guard.c converts SIGBUS), as is one that was replaced, removed or initialised again (Channel.Check).
//   - Run no Go code while a lock is held. Lock, copy and unlock are one C call, which allocates nothing, causes no page fault
//     and calls nothing back. Signals are not masked, since the two system calls for that would take longer than the put, and
//     the Go runtime's signal handlers run for only a few microseconds.
//
// # Locks and holes
//
// On x86-64 Next reads the newest frame without the lock, so that a reader never delays the writer; get.c explains why that is
// correct. On other architectures every read takes the lock. libach can overwrite a frame that its index still lists, if the
// frame is larger than the nominal frame size. No reader can detect that, with or without the lock.
//
// Channels of Ach 1.x can only be read. The lock of those of 1.0 and 1.1 is never taken, since a process that dies with it stops
// all others. So they are read on x86-64 only, between two puts, and are mapped without the right to write.
//
// A frame of 16 KiB or more in a hole of the file gives ErrHole, since no program has put it. See hole.go.
//
// # Changes to a file
//
// The package changes a channel of another program only as put and get do. In a mirror it also stores a Tag, in header words
// that libach reserves, sets to zero and never reads (bytes 144 to 199).
package localach
