// Package localach shares Ach channels with libach, the original C library: a program linked with libach and a program using
// this package have a channel in common and neither can tell. It is the only package of this module that uses cgo.
//
// A channel is a file in /dev/shm: a header with a lock, a ring of index entries, and a ring of bytes; its layout and rules are
// recorded, from the behaviour of libach 2.0.0, in the vectors that TestVectors replays. What it is for is said by Dantam and
// Stilman, "Ach: IPC for Real-Time Robot Control": a controller wants the newest sample, at once, however many older ones it
// has not read (head-of-line blocking is what the authors fled from sockets for), a publisher must never wait for its
// subscribers, and a subscriber that wants every message in order can have that too as long as the ring holds them.
// Hence Reader.Next (newest unseen), Reader.NextOldest (oldest unseen), Reader.Last (newest, seen or not) and Writer.Put, which
// overwrites the oldest frames.
//
// # Four rules
//
// We are a guest in the memory of somebody's control loop.
//
//   - Never wait on a channel's condition variable. A process killed while it waits there leaves glibc's variable in a state
//     in which the writer's next broadcasts never return. New data is noticed by looking at last_seq (Watcher, or Next with a
//     wait). For the same reason a broadcast of ours happens in a goroutine of its own, and only when somebody waits.
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
// # Reading without the lock
//
// On x86-64 the newest frame is read without the lock (get_unlocked in get.c), so that a reader never delays the writer. The
// reader loads last_seq, sees the lock word free and dirty clear, loads the newest entry, then sees the lock word still free and
// last_seq still the same: so the entry is whole, for whoever changes it holds the lock and ends by having moved last_seq. It
// copies the bytes, and loads the entry again. A writer that reuses any of those bytes has zeroed the entry that lists them
// before, and may later list another frame there, but under another sequence number. Stores of one processor become visible in
// program order on x86-64, and loads happen in program order (a fence keeps the copy's loads before the last look): a copy that
// holds one byte of a newer frame is followed by a look that finds the entry changed. Then the reader tries again, and after
// a few times takes the lock. The one exception is libach's own: a frame larger than the nominal frame size can be
// overwritten by libach while still listed, and then no reader, locked or not, can tell; our Put does not do that.
// Other architectures order stores less strictly, and libach has no fences between them: there every read takes the lock.
//
// # What we leave in a file
//
// In a channel of somebody else's: nothing but what put and get leave. In a mirror: its Tag, in header words that libach
// reserves, leaves zero and never reads (bytes 144 to 191).
package localach
