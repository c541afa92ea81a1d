// What is read and written without the lock: last_seq, the tag, the words of a status.
#define _GNU_SOURCE
#include "ach.h"

#include <string.h>
#include <time.h>

static struct ach_header *header_of(const struct ach_map *m) { return (struct ach_header *)m->base; }

struct words {
	const struct ach_map *m;
	uint64_t seq;
	int64_t wait_ns, period_ns;
	struct ach_stat *stat;
	struct ach_tag *tag;
};

static int last_seq(void *arg) {
	struct words *a = arg;
	a->seq = ACH_ACQUIRE(header_of(a->m)->last_seq);
	return ACH_OK;
}

int ach_last_seq(const struct ach_map *m, uint64_t *seq) {
	struct words a = {.m = m};
	int status = ach_guarded(last_seq, &a);
	if (status == ACH_OK)
		*seq = a.seq;
	return status;
}

static int wait_newer(void *arg) {
	struct words *a = arg;
	struct timespec nap = {0, a->period_ns}, start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		if (ACH_ACQUIRE(header_of(a->m)->last_seq) != a->seq)
			return ACH_OK;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - start.tv_sec) * 1000000000LL + now.tv_nsec - start.tv_nsec >= a->wait_ns)
			return ACH_STALE;
		nanosleep(&nap, NULL);
	}
}

// Watch last_seq until it is not seq: never the condition variable.
int ach_wait_newer(const struct ach_map *m, uint64_t seq, int64_t wait_ns, int64_t period_ns) {
	struct words a = {.m = m, .seq = seq, .wait_ns = wait_ns, .period_ns = period_ns};
	return ach_guarded(wait_newer, &a);
}

static int get_stat(void *arg) {
	struct words *a = arg;
	struct ach_header *h = header_of(a->m);
	uint64_t unused = ACH_LOAD(h->index_free);
	a->stat->last_seq = ACH_ACQUIRE(h->last_seq);
	a->stat->frames = unused <= a->m->index_cnt ? a->m->index_cnt - unused : 0;
	a->stat->data_free = ACH_LOAD(h->data_free);
	a->stat->clock = ACH_LOAD(h->clock);
	a->stat->dirty = ACH_LOAD(h->dirty) != 0;
	a->stat->owner = ACH_LOAD(h->mutex.__data.__lock) & ACH_OWNER_TID;
	if (a->stat->owner && ach_lock_plain(h)) // the lock word of a plain mutex does not have the thread's id
		a->stat->owner = ACH_LOAD(h->mutex.__data.__owner);
	a->stat->waiters = ach_cond_waiters(h);
	a->stat->waking = ach_cond_waking(h);
	a->stat->foreign_cond = ach_cond_foreign(h);
	return ACH_OK;
}

int ach_get_stat(const struct ach_map *m, struct ach_stat *s) {
	struct words a = {.m = m, .stat = s};
	return ach_guarded(get_stat, &a);
}

static int get_tag(void *arg) {
	struct words *a = arg;
	memcpy(a->tag, &header_of(a->m)->tag, sizeof *a->tag);
	return ACH_OK;
}

int ach_get_tag(const struct ach_map *m, struct ach_tag *t) {
	struct words a = {.m = m, .tag = t};
	return ach_guarded(get_tag, &a);
}

// A tag half written when its writer dies must never claim a frame that was not put: a changed epoch goes through no frame, a
// changed identity through no tag. The new tag comes with ahead as if nothing had been put yet.
static int set_tag(void *arg) {
	struct words *a = arg;
	struct ach_tag *to = &header_of(a->m)->tag;
	uint64_t last = a->tag->magic ? header_of(a->m)->last_seq : 0;
	__atomic_store_n(&to->end, 0, __ATOMIC_SEQ_CST);
	if (memcmp(to, a->tag, offsetof(struct ach_tag, ahead))) {
		__atomic_store_n(&to->ahead, -last, __ATOMIC_SEQ_CST);
		if (memcmp(to, a->tag, offsetof(struct ach_tag, epoch))) {
			__atomic_store_n(&to->magic, 0, __ATOMIC_SEQ_CST);
			memcpy(to->node, a->tag->node, sizeof to->node);
			__atomic_store_n(&to->channel, a->tag->channel, __ATOMIC_SEQ_CST);
		}
		__atomic_store_n(&to->epoch, a->tag->epoch, __ATOMIC_SEQ_CST);
		__atomic_store_n(&to->magic, a->tag->magic, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&to->ahead, a->tag->ahead - last, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->end, a->tag->end + last, __ATOMIC_SEQ_CST);
	return ACH_OK;
}

int ach_set_tag(const struct ach_map *m, const struct ach_tag *t) {
	struct words a = {.m = m, .tag = (struct ach_tag *)t};
	return ach_guarded(set_tag, &a);
}
