// Package localach shares Ach channels with libach, the original C library: a program linked with libach and a program
// using this package have a channel in common, and neither can tell.
//
//	channel, err := localach.Shm.Open("imu")           // or Shm.Create("imu", localach.CreateConfig{})
//	defer channel.Close()
//	writer, reader := channel.Writer(), channel.Reader()
//	defer writer.Close()
//	seq, err := writer.Put(frame)                      // never waits for a reader
//	n, err := reader.Next(buf, time.Second)            // the newest frame not returned before
//	n, err = reader.NextOldest(buf, 0)                 // the oldest, for whoever must have all
//	err = localach.Shm.Watch(ctx, func(e localach.Event) { … }) // channels that come and go
//
// A channel is a file in /dev/shm: a header with a lock, a ring of index entries, and a ring of bytes. TestVectors replays
// its layout and rules, recorded from libach 2.0.0. Dantam and Stilman, "Ach: IPC for Real-Time Robot Control", say what it
// is for: a controller wants the newest sample at once, however many older ones it has not read, and a publisher must never
// wait for its subscribers. It is the only package of this module that uses cgo.
//
// # Five rules
//
// We are a guest in the memory of somebody's control loop.
//
//   - Never wait on a channel's condition variable. A process killed while it waits there leaves the variable of glibc up to
//     2.40 in a state in which a broadcast never returns. New data is noticed by looking at last_seq (Watcher, or Next with a
//     wait). For the same reason a broadcast of ours happens in a goroutine of its own, and only when somebody waits.
//   - No function of the C library that knows locks or condition variables works on shared memory: those end the process when
//     a futex call fails, and whoever may write the file can bring that about. Lock and broadcast are our own (lock.c,
//     cond.c); every wait in them is bounded, and every failure is an error.
//   - Every lock is bounded: 100 ms, then ErrBusy. The lock is polled before it is queued for, since an owner that somebody
//     queues for has to make a system call to unlock. Should we die holding it the kernel gives it back (lock.c).
//   - Nothing read from the file is trusted. Counts, offsets and sizes are checked before use and against those found at
//     opening, loops are bounded by the number of entries, a put is planned on copies before it changes anything, and a file
//     truncated under us is an error (guard.c turns SIGBUS into one), as is one that was replaced, removed or initialised
//     again (Channel.Check).
//   - No Go runs while a lock is held. Lock, copy and unlock are one C call that allocates nothing, faults nothing in and
//     calls nothing back. Signals are not masked: the two system calls that would take cost more than the whole put, and the
//     Go runtime's handlers run for a few microseconds only.
//
// # Locks and holes
//
// On x86-64 Next reads the newest frame without the lock, so that a reader never delays the writer; get.c says why that is
// right. Elsewhere every read takes the lock. Only libach can overwrite a frame while it is still listed: one that is larger
// than the nominal frame size. Then no reader, locked or not, can tell.
//
// A frame of 16 KiB or more that lies in a hole of the file gives ErrHole: nobody ever put it. See hole.go.
//
// # What we leave in a file
//
// In a channel of somebody else's: nothing but what put and get leave. In a mirror: its Tag, in header words that libach
// reserves, leaves zero and never reads (bytes 144 to 191).
package localach
