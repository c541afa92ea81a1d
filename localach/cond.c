// The channel's condition variable, which we broadcast on and never wait for.
//
// A process killed while it waits leaves glibc's variable (2.25 to 2.40) with a group reference that nobody gives back, and the
// next broadcasts wait for it without end. glibc 2.41 laid the words out anew; which layout this libc has is found by looking
// at a fresh variable, since distributions backport.
#define _GNU_SOURCE
#include "ach.h"

#include <limits.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// 32-bit words of pthread_cond_t; wrefs: bit 0 process-shared, bit 1 monotonic clock, from bit 3 the number of waiters.
#define OLD_REFS 4    // g_refs[2], up to 2.40
#define OLD_LOCK 8    // g1_orig_size: the low two bits are the inner lock
#define OLD_WREFS 9
#define OLD_SIGNALS 10 // g_signals[2]
#define NEW_LOCK 6    // from 2.41
#define NEW_WREFS 7
#define NEW_SIGNALS 8

static int wrefs_word; // OLD_WREFS, NEW_WREFS, or 0: not known
static pthread_once_t probed = PTHREAD_ONCE_INIT;

static void probe(void) {
	pthread_cond_t cond;
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &attr);
	const uint32_t *words = (const uint32_t *)&cond;
	if (words[OLD_WREFS] == 3)
		wrefs_word = OLD_WREFS;
	else if (words[NEW_WREFS] == 3)
		wrefs_word = NEW_WREFS;
	pthread_cond_destroy(&cond);
	pthread_condattr_destroy(&attr);
}

static uint32_t *words_of(struct ach_header *h) {
	pthread_once(&probed, probe);
	return (uint32_t *)&h->cond;
}

int ach_cond_foreign(struct ach_header *h) {
	uint32_t *words = words_of(h);
	uint32_t flags = ACH_LOAD(h->clock) == CLOCK_MONOTONIC ? 3 : 1;
	return wrefs_word && (ACH_LOAD(words[wrefs_word]) & 3) != flags;
}

// How many wait; 1 when that cannot be known; 0 for a foreign layout, whose waiters a broadcast would not wake but could harm.
int ach_cond_waiters(struct ach_header *h) {
	uint32_t *words = words_of(h);
	if (!wrefs_word)
		return 1;
	return ach_cond_foreign(h) ? 0 : (int)(ACH_LOAD(words[wrefs_word]) >> 3);
}

static int wake(void *arg) {
	struct ach_header *h = (struct ach_header *)((const struct ach_map *)arg)->base;
	uint64_t guard;
	memcpy(&guard, h + 1, sizeof guard);
	if (guard == ACH_GUARD_HEADER && !ach_cond_foreign(h)) // else poisoned: the variable is ruined
		pthread_cond_broadcast(&h->cond);
	return ACH_OK;
}

// Broadcast. May never return: doc.go, "Four rules".
int ach_wake(const struct ach_map *m) { return ach_guarded(wake, (void *)m); }

static void wake_all(uint32_t *word) {
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// Let everybody out who waits in the variable or hangs in a broadcast, whoever was killed in it. The variable is ruined after
// that: only for a file that nobody shall use again.
void ach_cond_release(struct ach_header *h) {
	uint32_t *words = words_of(h);
	if (ach_cond_foreign(h))
		return;
	int old = wrefs_word == OLD_WREFS;
	uint32_t *lock = words + (old ? OLD_LOCK : NEW_LOCK), *signals = words + (old ? OLD_SIGNALS : NEW_SIGNALS);
	__atomic_store_n((uint64_t *)words + 1, UINT64_MAX / 4 * 2, __ATOMIC_SEQ_CST); // g1_start: every group is closed
	// Again and again: a waiter that is let go counts itself out of the group afterwards, below zero, for which a broadcast that has
	// not looked yet would wait anew.
	for (int i = 0; i < 40; i++) {
		for (int g = 0; g < 2; g++) {
			__atomic_fetch_or(signals + g, 1, __ATOMIC_SEQ_CST);
			wake_all(signals + g);
			if (old) {
				__atomic_store_n(words + OLD_REFS + g, 0, __ATOMIC_SEQ_CST);
				wake_all(words + OLD_REFS + g);
			}
		}
		__atomic_fetch_and(lock, ~3u, __ATOMIC_SEQ_CST);
		wake_all(lock);
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}
