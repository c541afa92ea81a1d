// The channel's lock: a robust, priority-inheriting pthread mutex in shared memory, taken without pthread_mutex_lock.
//
// What other processes rely on is the kernel's futex ABI (robust-futex-ABI, pi-futex): the lock word holds the owner's thread id,
// and an owner that dies is found through its robust list. glibc's own functions do more than that, and it hurts here: they keep
// list pointers in the shared mutex and write through them when unlocking, they abort the process when the lock word names a
// thread that does not exist (garbage, another PID namespace), and they queue at once, which costs the owner a system call.
// Here the lock is announced in the robust list's list_op_pending slot, in this thread's memory, for as long as it is held;
// nothing in the shared file is ever followed, and a lost page leaves nothing behind.
#define _GNU_SOURCE
#include "ach.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef __GLIBC__
#error "localach needs glibc: other C libraries lay out pthread_mutex_t differently, and so cannot share a channel with libach"
#endif
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#define KIND_RELEASE 0xb0 // process-shared | priority-inherit | robust
#define KIND_DEBUG 0xb2   // the same, error checking: libach without NDEBUG
#define KIND_PLAIN 0x80   // only process-shared; the lower two bits are the mutex's type
#define NOT_RECOVERABLE (INT_MAX - 1) // glibc's mark in __owner

static __thread struct {
	struct robust_list_head *robust; // this thread's, registered with the kernel by pthread_create
	uint32_t tid;
	struct ach_header *held;
} self;

static long futex(uint32_t *word, int op, struct timespec *until) {
	return syscall(SYS_futex, word, op, 0, until, NULL, 0);
}

static int know_self(void) {
	if (self.robust)
		return 1;
	size_t size = 0;
	self.tid = (uint32_t)syscall(SYS_gettid);
	return syscall(SYS_get_robust_list, 0, &self.robust, &size) == 0 && self.robust && size == sizeof *self.robust;
}

// Tell the kernel which word to look at should this thread die now; bit 0 says priority-inheriting.
static void announce(uint32_t *word) {
	struct robust_list *entry = word ? (void *)(((uintptr_t)word - (uintptr_t)self.robust->futex_offset) | 1) : NULL;
	__atomic_store_n(&self.robust->list_op_pending, entry, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Returns 1 when the lock is ours. Takes a free word, and one whose owner has died.
static int try_lock(uint32_t *word) {
	uint32_t seen = 0;
	if (__atomic_compare_exchange_n(word, &seen, self.tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 1;
	return (seen & FUTEX_OWNER_DIED) && futex(word, FUTEX_TRYLOCK_PI, NULL) == 0;
}

// Wait in the kernel's queue until the monotonic time end. Before Linux 5.14 this fails at once, and polling goes on: the older
// call waits by the wall clock, for years if that is set back meanwhile.
static int queue(uint32_t *word, int64_t end) {
	struct timespec until = {end / 1000000000, end % 1000000000};
	return futex(word, FUTEX_LOCK_PI2, &until) == 0;
}

// Poll first: an owner that nobody queues for unlocks without a system call, and owners hold this lock for a memcpy. Queue only
// when that has not helped for long, so that two writers handing the lock to each other cannot starve us.
static int contend(uint32_t *word, int64_t limit_ns) {
	for (int i = 0; i < 200; i++) {
		if (ACH_LOAD(*word) == 0 && try_lock(word))
			return 1;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	int64_t start = ach_now_ns(), now = start;
	for (int i = 0; now - start < limit_ns; i++, now = ach_now_ns()) {
		if (try_lock(word))
			return 1;
		if (now - start > ACH_QUEUE_NS && queue(word, start + limit_ns))
			return 1;
		struct timespec nap = {0, 50000};
		if (i < 10)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return 0;
}

int ach_lock_known(struct ach_header *h) {
	int kind = ACH_LOAD(h->mutex.__data.__kind);
	return kind == KIND_RELEASE || kind == KIND_DEBUG;
}

int ach_lock_plain(struct ach_header *h) { return (ACH_LOAD(h->mutex.__data.__kind) & ~3) == KIND_PLAIN; }

int ach_lock(struct ach_header *h, int64_t limit_ns) {
	if (!ach_lock_known(h) || !know_self())
		return ACH_WRONG(ACH_FOREIGN, ACH_WHY_MUTEX);
	uint32_t *word = (uint32_t *)&h->mutex.__data.__lock;
	announce(word);
	if (!try_lock(word) && (limit_ns == ACH_LOCK_ONCE || !contend(word, limit_ns))) {
		announce(NULL);
		return ACH_BUSY;
	}
	self.held = h;
	__atomic_fetch_and(word, ~FUTEX_OWNER_DIED, __ATOMIC_ACQUIRE);
	if (h->mutex.__data.__owner == NOT_RECOVERABLE) {
		ach_unlock(h);
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_MUTEX);
	}
	h->mutex.__data.__owner = (int)self.tid;
	h->mutex.__data.__nusers++;
	return ACH_OK;
}

void ach_unlock(struct ach_header *h) {
	if (h->mutex.__data.__owner != NOT_RECOVERABLE) {
		h->mutex.__data.__owner = 0;
		h->mutex.__data.__nusers--;
	}
	uint32_t *word = (uint32_t *)&h->mutex.__data.__lock, seen = self.tid;
	if (!__atomic_compare_exchange_n(word, &seen, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		futex(word, FUTEX_UNLOCK_PI, NULL);
	self.held = NULL;
	announce(NULL);
}

void ach_lock_lost(void) {
	struct ach_header *h = self.held;
	self.held = NULL;
	if (self.robust)
		announce(NULL);
	if (h)
		ach_unlock(h); // may fault again: then the lock is lost with its page, for everybody
}
