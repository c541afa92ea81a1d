// The Ach channel ABI in C: layout, critical sections, guarded access.
//
// Every function here may be given a hostile or vanishing file: nothing read from the mapping is used unchecked, every lock and
// loop is bounded, and a SIGBUS inside returns ACH_FAULT. None calls back into Go.
#ifndef ACHBRIDGE_ACH_H
#define ACHBRIDGE_ACH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ACH_MAGIC 0xb07511f3u
#define ACH_GUARD_HEADER 0x1A2A3A4A5A6A7A8AULL
#define ACH_GUARD_INDEX 0x1B2B3B4B5B6B7B8BULL
#define ACH_GUARD_DATA 0x1C2C3C4C5C6C7C8CULL
#define ACH_TAG_MAGIC 0x31676154686341ULL // "AchTag1"

// Who made a mirror and what it last put there: lives in header words that libach reserves and leaves zero.
struct ach_tag {
	uint64_t magic;
	uint8_t node[16];
	uint64_t channel, epoch, ahead; // ahead: the origin's numbers minus ours
	uint64_t end; // our frame numbers from here on are another program's; 0: none is, as in files of older versions
};

struct ach_header {
	uint32_t magic;
	uint64_t len;
	char name[65];
	union {
		uint64_t reserved[16];
		struct {
			uint64_t index_cnt, data_size, data_head, data_free, index_head, index_free;
			int32_t clock, anon;
			struct ach_tag tag;
		};
	};
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int32_t dirty;
	uint64_t last_seq;
};

enum {
	offsetof_mutex = offsetof(struct ach_header, mutex),
	offsetof_cond = offsetof(struct ach_header, cond),
};

struct ach_entry {
	uint64_t size, offset, seq;
};

// One mapping: where it is and the geometry found when it was opened. An operation that meets another geometry refuses.
// The address is an integer so that Go need not check the struct for pointers.
struct ach_map {
	uintptr_t base;
	uint64_t len, index_cnt, data_size;
	int32_t splits;  // Ach 1.x made the channel: a frame that reaches the end of the data continues at the beginning of the data
	int32_t lockless; // the lock is never taken; only if ach_reads_lockless()
};

// Status in the low byte (libach's numbers below 32, ours above), the culprit (enum ach_why) above it.
enum ach_status {
	ACH_OK = 0,
	ACH_OVERFLOW = 1,
	ACH_STALE = 5,
	ACH_MISSED = 6,
	ACH_BUG = 11,
	ACH_EINVAL = 12,
	ACH_CORRUPT = 13,
	ACH_BUSY = 32,   // the lock stayed taken for ACH_LOCK_NS
	ACH_DIRTY = 33,  // a writer died inside put
	ACH_REINIT = 34, // the file was initialised again under us
	ACH_FOREIGN = 35, // the mutex is not one that this libc could share
	ACH_FAULT = 36,  // SIGBUS: the file is shorter than the mapping
	ACH_HOLE = 37,   // the frame lies in a hole of the file: it was never put
	ACH_NO_FILE = 38, // a large frame, and no descriptor to look for holes with
	ACH_WEDGED = 39, // the condition variable stayed in the hands of somebody who may be dead, or is damaged
	ACH_MOVED = 40,  // another frame is the newest
};

enum ach_why {
	ACH_WHY_NONE,
	ACH_WHY_MAGIC,
	ACH_WHY_LEN,
	ACH_WHY_GUARD_HEADER,
	ACH_WHY_GUARD_INDEX,
	ACH_WHY_GUARD_DATA,
	ACH_WHY_INDEX_HEAD,
	ACH_WHY_INDEX_FREE,
	ACH_WHY_DATA_HEAD,
	ACH_WHY_DATA_FREE,
	ACH_WHY_LAST_SEQ,
	ACH_WHY_ENTRY_SIZE,
	ACH_WHY_ENTRY_OFFSET,
	ACH_WHY_ENTRY_SEQ,
	ACH_WHY_MUTEX,
	ACH_WHY_COUNT,
};

enum ach_option {
	ACH_OPT_LAST = 2,
	ACH_OPT_COPY = 4,
	ACH_OPT_LOCKED = 1 << 16, // do not try the lock-free read
	ACH_OPT_TRY = 1 << 17,    // wait for the lock no longer than a short spin
};

#define ACH_LOCK_NS 100000000LL  // no lock is waited for longer
#define ACH_LARGE 16384          // bytes: a frame from which on holes are looked for
#define ACH_QUEUE_NS 5000000LL   // after this long of polling for it, wait in the kernel's queue
#define ACH_WAKE_NS 10000000LL   // no broadcast takes longer
#define ACH_WAKE_SOME 8          // so many waiters a put wakes itself

struct ach_reader {
	uint64_t seq, next_index; // libach's seq_num and next_index
	uint64_t size, missed;    // of the last get
	uint64_t found;           // number of the frame that the last get copied, or could not
};

struct ach_put {
	int64_t limit_ns; // in: how long to wait for the lock; at most a short spin when 0
	int32_t only;     // in: put only if after is the number of the newest frame, else return ACH_MOVED
	uint64_t after;   // in, with only; 0 means that no frame was ever put
	uint64_t seq;
	int32_t waiters; // ach_wake is to be called: somebody may wait on the condition variable
};

struct ach_stat {
	uint64_t last_seq, frames, data_free;
	int32_t clock, dirty, owner, waiters, waking, foreign_cond;
};

// What Go wants from a copy of a header; cgo does not see into unions.
struct ach_layout {
	uint64_t index_cnt, data_size;
	struct ach_tag tag;
};

// ach_guarded runs fn(arg); a SIGBUS inside ends it and gives ACH_FAULT. Not to be nested.
int ach_guarded(int (*fn)(void *), void *arg);

void ach_layout(const struct ach_header *h, struct ach_layout *out);
int ach_init(const struct ach_map *m, const char *name);
int ach_check(const struct ach_map *m);
int ach_reads_lockless(void); // 1 if this architecture can read without the lock, else 0
// fd is the file that is mapped; -1: none, as for frames below ACH_LARGE. With cap 0 it only tells the size: ACH_OVERFLOW, or
// what keeps the frame from being copied.
int ach_get(const struct ach_map *m, struct ach_reader *r, void *buf, size_t cap, int options, int fd);
int ach_flush(const struct ach_map *m, struct ach_reader *r);
int ach_put(const struct ach_map *m, struct ach_put *out, const void *frame, size_t len);
int ach_largest(const struct ach_map *m, uint64_t *bytes);
int ach_last_seq(const struct ach_map *m, uint64_t *seq);
int ach_wait_newer(const struct ach_map *m, uint64_t seq, int64_t wait_ns, int64_t period_ns);
int ach_wake(const struct ach_map *m);
int ach_poison(const struct ach_map *m);
int ach_get_stat(const struct ach_map *m, struct ach_stat *s);
int ach_get_tag(const struct ach_map *m, struct ach_tag *t);
int ach_set_tag(const struct ach_map *m, const struct ach_tag *t);

// Among the C files.
int ach_lock_known(struct ach_header *h); // the mutex is of the kind that libach makes with this libc
int ach_lock_plain(struct ach_header *h); // the mutex is of the kind that Ach 1.0 and 1.1 make: it stays locked if its owner dies
int ach_lock(struct ach_header *h, int64_t limit_ns); // limit_ns may be ACH_LOCK_ONCE. ACH_OK, ACH_BUSY, ACH_FOREIGN or ACH_CORRUPT
void ach_unlock(struct ach_header *h);
void ach_lock_lost(void);             // after a fault: give back what this thread held
int ach_cond_known(void); // this libc's condition variables are laid out in a way that cond.c knows
int ach_cond_foreign(struct ach_header *h);
int ach_cond_waiters(struct ach_header *h);
int ach_cond_waking(struct ach_header *h); // 1 if the inner lock of the condition variable is held
int ach_cond_hangs(void); // with this libc, a process killed while it waits makes a later broadcast hang
int ach_cond_wake_some(struct ach_header *h);
void ach_cond_release(struct ach_header *h);

static inline int64_t ach_now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

#define ACH_LOCK_ONCE (-1)       // as a limit: one look, no spin
#define ACH_STREAMED 16384       // bytes: from here on glibc's memcpy may store past the caches, which no other store waits for

#define ACH_OWNER_TID 0x3fffffff // of the lock word
#define ACH_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define ACH_ACQUIRE(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define ACH_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define ACH_WRONG(status, why) ((status) | (why) << 8)

#endif
