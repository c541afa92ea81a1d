// The channel's condition variable, which we broadcast on and never wait for.
//
// Whoever can write the file can make a futex call on it fail, and glibc's pthread_cond_broadcast calls abort then; and it waits
// without end for a process that was killed while it waited. So the broadcast is our own: the words are changed as glibc
// changes them, every wait has an end, and every failure is ACH_WEDGED.
//
// How glibc's variable works: each waiter takes a position (wseq) and belongs to one of two groups. G1 gets signals; newcomers
// go to G2, whose number is the lowest bit of wseq. A broadcast gives G1 its remaining signals, then closes it, makes G2 the new
// G1 and gives that its signals. Up to 2.40 it must not switch before all waiters of G1 that may sleep are gone (refs), and a
// process killed while it sleeps never goes. From 2.41 signals are counted from the group's first position on, which makes that
// unnecessary. Distributions backport, so which of the two this libc has is found by trying (probe).
#define _GNU_SOURCE
#include "ach.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Where the 32-bit words of pthread_cond_t lie. Before them come wseq and start (of G1), 64 bits each; up to 2.40 the lowest
// bit of start is the number of G2.
struct layout {
	int refs;    // [2]: waiters of the group that may sleep; bit 0: wake me when they are gone; 0: there are none
	int size;    // [2]: waiters of the group without a signal; of G2: 0 less those that have gone
	int lock;    // bits 0 and 1: the inner lock; from bit 2: waiters that G1 began with
	int wrefs;   // bit 0: process-shared, bit 1: monotonic clock, from bit 3: waiters
	int signals; // [2]: where waiters sleep; up to 2.40 bit 0 says that the group is closed, and each signal counts 2
};

static const struct layout up_to_2_40 = {.refs = 4, .size = 6, .lock = 8, .wrefs = 9, .signals = 10};
static const struct layout from_2_41 = {.refs = 0, .size = 4, .lock = 6, .wrefs = 7, .signals = 8};

static const struct layout *known; // NULL: this libc's is neither
static pthread_once_t probed = PTHREAD_ONCE_INIT;

#define ADD(word, n) __atomic_fetch_add(&(word), (n), __ATOMIC_SEQ_CST)
#define SWAP(word, v) __atomic_exchange_n(&(word), (v), __ATOMIC_SEQ_CST)
#define SET(word, v) __atomic_store_n(&(word), (v), __ATOMIC_SEQ_CST)

static int wake(uint32_t *word, int count) {
	return syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0) < 0 ? ACH_WEDGED : ACH_OK;
}

// Sleep while *word is seen, until end at most. ACH_OK says only that it is time to look again.
static int sleep_on(uint32_t *word, uint32_t seen, int64_t end) {
	int64_t left = end - ach_now_ns();
	if (left <= 0)
		return ACH_WEDGED;
	struct timespec limit = {left / 1000000000, left % 1000000000};
	if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0) == 0 || errno == EAGAIN || errno == EINTR)
		return ACH_OK;
	return ACH_WEDGED; // the time is over, or the word is gone
}

// With an end of 0 it never sleeps. Gives up only where it would sleep, with the word marked: so a wake-up meant for one of those who wait is never swallowed.
static int lock_inner(uint32_t *word, int64_t end) {
	uint32_t seen = ACH_LOAD(*word), mark = 1; // 2: somebody may wait for it
	for (int tries = 0; tries < (end ? 1000000 : 20); tries++) {
		uint32_t want = seen & 3 ? (seen & ~3u) | 2 : seen | mark;
		if (seen != want && !__atomic_compare_exchange_n(word, &seen, want, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		if ((seen & 3) == 0)
			return ACH_OK;
		mark = 2;
		if (sleep_on(word, want, end))
			return ACH_WEDGED;
		seen = ACH_LOAD(*word);
	}
	return ACH_WEDGED; // somebody plays with the word
}

static int unlock_inner(uint32_t *word) {
	return (SWAP(*word, ACH_LOAD(*word) & ~3u) & 3) == 2 ? wake(word, 1) : ACH_OK;
}

// Only with the inner lock: others may meanwhile only mark that they wait for it.
static void set_first_size(uint32_t *word, uint32_t size) {
	uint32_t want = size << 2 | (ACH_LOAD(*word) & 3);
	if ((SWAP(*word, want) & 3) != (want & 3))
		SET(*word, size << 2 | 2);
}

// A signal for every waiter of a group. Returns whether there are any, who are then to be woken.
static int signal_all(const struct layout *l, uint32_t *words, uint32_t group) {
	uint32_t size = SWAP(words[l->size + group], 0);
	ADD(words[l->signals + group], l->refs ? size << 1 : size);
	return size != 0;
}

// Make G2 the new G1, which begins at position first; it has no more waiters that sleep. Needs the inner lock.
static void switch_groups(const struct layout *l, uint32_t *words, uint32_t g2, uint64_t first) {
	uint64_t *wseq = (uint64_t *)words, *start = wseq + 1;
	uint32_t g1 = g2 ^ 1;
	if (l->refs) {
		SET(*start, first << 1 | g1);
		SET(words[l->signals + g1], 0);
	} else {
		SET(*start, first);
	}
	uint64_t end = ADD(*wseq, g1 - (uint64_t)g2) >> 1; // flips the lowest bit; newcomers go to the other group from here on
	if (!l->refs)
		SET(words[l->signals + g2], (uint32_t)first);
	set_first_size(&words[l->lock], (uint32_t)(end - first));
	ADD(words[l->size + g2], (uint32_t)(end - first));
}

// One pass. The inner lock is held for some instructions and never while we sleep: when waiters of G1 must go first,
// awaited says on which word, and the pass is to be made again.
static int pass(const struct layout *l, uint32_t *words, int64_t end, uint32_t **awaited) {
	uint64_t *wseq = (uint64_t *)words, *start = wseq + 1;
	*awaited = NULL;
	int status = lock_inner(&words[l->lock], end), woken[2] = {0, 0};
	if (status)
		return status;
	uint64_t seq = ACH_LOAD(*wseq), first = (l->refs ? ACH_LOAD(*start) >> 1 : ACH_LOAD(*start)) + (ACH_LOAD(words[l->lock]) >> 2);
	uint32_t g2 = seq & 1, g1 = g2 ^ 1;
	woken[g1] = signal_all(l, words, g1);
	if ((uint32_t)((seq >> 1) - first) + ACH_LOAD(words[l->size + g2]) != 0) { // somebody is in G2
		if (l->refs) {
			__atomic_fetch_or(&words[l->signals + g1], 1, __ATOMIC_SEQ_CST); // nobody goes to sleep there any more
			if (ADD(words[l->refs + g1], 0) >> 1) {
				*awaited = &words[l->refs + g1];
				woken[g1] = 1; // also one whose signal was taken by a waiter of an older group that died before it gave it back
			}
		}
		if (!*awaited) {
			switch_groups(l, words, g2, first);
			woken[g2] = signal_all(l, words, g2);
		}
	}
	status = unlock_inner(&words[l->lock]);
	for (int g = 0; g < 2; g++)
		if (woken[g] && wake(&words[l->signals + g], INT_MAX))
			status = ACH_WEDGED;
	return status;
}

// Sleep until the last of a closed group has gone, or has at least been seen to be one fewer.
static int await_gone(uint32_t *refs, int64_t end) {
	__atomic_fetch_or(refs, 1, __ATOMIC_SEQ_CST);
	uint32_t seen = ACH_LOAD(*refs);
	if (seen >> 1 == 0)
		return ACH_OK;
	return sleep_on(refs, seen, end);
}

static int broadcast(const struct layout *l, uint32_t *words, int64_t limit_ns) {
	int64_t end = ach_now_ns() + limit_ns;
	uint32_t *awaited;
	int status;
	do
		status = pass(l, words, end, &awaited);
	while (!status && awaited && !(status = await_gone(awaited, end)));
	return status;
}

// Do both broadcasts, glibc's and ours, leave the same words behind, in a variable of our own that looks as if processes
// waited in it? Each round: newcomers, those of them that went away again, and those of G1 that have no signal yet.
static int like_glibc(const struct layout *l) {
	static const uint32_t rounds[][3] = {{3, 0, 0}, {1, 0, 0}, {2, 1, 0}, {0, 0, 0}, {1, 1, 0}, {1, 0, 2}, {4, 3, 1}};
	pthread_cond_t both[2];
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&both[0], &attr);
	pthread_condattr_destroy(&attr);
	if (((uint32_t *)&both[0])[l->wrefs] != 3)
		return 0;
	both[1] = both[0];
	for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
		for (int k = 0; k < 2; k++) {
			uint32_t *words = (uint32_t *)&both[k], g2 = words[0] & 1;
			*(uint64_t *)words += 2 * rounds[i][0];
			words[l->wrefs] = 3 + 8;
			words[l->size + g2] -= rounds[i][1];
			words[l->size + (g2 ^ 1)] += rounds[i][2];
		}
		pthread_cond_broadcast(&both[0]);
		if (broadcast(l, (uint32_t *)&both[1], ACH_WAKE_NS) || memcmp(&both[0], &both[1], sizeof both[0]))
			return 0;
	}
	return 1;
}

static void probe(void) {
	if (like_glibc(&up_to_2_40))
		known = &up_to_2_40;
	else if (like_glibc(&from_2_41))
		known = &from_2_41;
}

static uint32_t *words_of(struct ach_header *h) {
	pthread_once(&probed, probe);
	return (uint32_t *)&h->cond;
}

int ach_cond_known(void) {
	pthread_once(&probed, probe);
	return known != NULL;
}

int ach_cond_foreign(struct ach_header *h) {
	uint32_t *words = words_of(h);
	uint32_t wrefs = known ? ACH_LOAD(words[known->wrefs]) : 0;
	int realtime = (wrefs & 3) == 1 && ACH_LOAD(h->clock) != CLOCK_MONOTONIC; // Ach 1.x stores no clock
	return known && (((wrefs & 3) != 3 && !realtime) || wrefs == UINT32_MAX); // glibc before 2.25 has ~0 in that word
}

// How many wait for a broadcast that can reach them; 0 when this libc's layout or the channel's is not known.
int ach_cond_waiters(struct ach_header *h) {
	uint32_t *words = words_of(h);
	return known && !ach_cond_foreign(h) ? (int)(ACH_LOAD(words[known->wrefs]) >> 3) : 0;
}

// Returns 1 if a process holds the inner lock of the condition variable, 0 if not or if its layout is not known. glibc's broadcast
// holds the inner lock while it waits for the waiters of group G1. Other calls hold it only for a few instructions.
int ach_cond_waking(struct ach_header *h) {
	uint32_t *words = words_of(h);
	return known && !ach_cond_foreign(h) ? (ACH_LOAD(words[known->lock]) & 3) != 0 : 0;
}

int ach_cond_hangs(void) {
	pthread_once(&probed, probe);
	return known && known->refs;
}

// Is somebody to be woken? Not once the channel is poisoned: then the variable is ruined.
static int awaited_by(struct ach_header *h) {
	uint64_t guard;
	memcpy(&guard, h + 1, sizeof guard);
	return guard == ACH_GUARD_HEADER ? ach_cond_waiters(h) : 0;
}

// Wake those who wait, as far as that takes no wait and no long row of them. Returns whether ach_wake is still to be called.
int ach_cond_wake_some(struct ach_header *h) {
	int waiters = awaited_by(h);
	uint32_t *awaited;
	if (waiters == 0 || waiters > ACH_WAKE_SOME)
		return waiters != 0;
	return pass(known, words_of(h), 0, &awaited) != ACH_OK || awaited;
}

static int wake_readers(void *arg) {
	struct ach_header *h = (struct ach_header *)((const struct ach_map *)arg)->base;
	if (!awaited_by(h))
		return ACH_OK;
	return broadcast(known, words_of(h), ACH_WAKE_NS);
}

// Broadcast. ACH_WEDGED: not everybody could be woken in ACH_WAKE_NS; it may be tried again.
int ach_wake(const struct ach_map *m) { return ach_guarded(wake_readers, (void *)m); }

// Let everybody out who waits in the variable or hangs in a broadcast, whoever was killed in it. The variable is ruined after
// that: only for a file that nobody shall use again.
void ach_cond_release(struct ach_header *h) {
	uint32_t *words = words_of(h);
	if (!known || ach_cond_foreign(h))
		return;
	uint32_t *lock = words + known->lock, *signals = words + known->signals;
	SET(((uint64_t *)words)[1], UINT64_MAX / 4 * 2); // start: every group is closed
	// Again and again: a waiter that is let go counts itself out of the group afterwards, below zero, for which a broadcast that has
	// not looked yet would wait anew.
	for (int i = 0; i < 40; i++) {
		for (int g = 0; g < 2; g++) {
			__atomic_fetch_or(signals + g, 1, __ATOMIC_SEQ_CST);
			wake(signals + g, INT_MAX);
			if (known->refs) {
				SET(words[known->refs + g], 0);
				wake(words + known->refs + g, INT_MAX);
			}
		}
		__atomic_fetch_and(lock, ~3u, __ATOMIC_SEQ_CST);
		wake(lock, INT_MAX);
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}
