// The header: made, checked, reported; and the words that are read and written without the lock.
#define _GNU_SOURCE
#include "ach.h"

#include <string.h>
#include <time.h>

#define OWNER_TID 0x3fffffff

static struct ach_header *header_of(const struct ach_map *m) { return (struct ach_header *)m->base; }

static void put_word(const struct ach_map *m, uint64_t offset, uint64_t word) {
	memcpy((char *)m->base + offset, &word, sizeof word);
}

static int init_mutex(pthread_mutex_t *mutex) {
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	int err = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return err;
}

static int init_cond(pthread_cond_t *cond) {
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int err = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return err;
}

void ach_layout(const struct ach_header *h, struct ach_layout *out) {
	*out = (struct ach_layout){h->index_cnt, h->data_size, h->tag};
}

struct init {
	const struct ach_map *m;
	const char *name;
};

static int init(void *arg) {
	struct init *a = arg;
	const struct ach_map *m = a->m;
	struct ach_header *h = header_of(m);
	h->len = m->len;
	h->clock = CLOCK_MONOTONIC;
	if (init_cond(&h->cond) || init_mutex(&h->mutex))
		return ACH_EINVAL;
	h->index_cnt = h->index_free = m->index_cnt;
	h->data_size = h->data_free = m->data_size;
	put_word(m, sizeof *h, ACH_GUARD_HEADER);
	put_word(m, sizeof *h + 8 + m->index_cnt * sizeof(struct ach_entry), ACH_GUARD_INDEX);
	put_word(m, m->len - 8, ACH_GUARD_DATA);
	h->magic = ACH_MAGIC;
	strncpy(h->name, a->name, sizeof h->name - 1);
	return ACH_OK;
}

// On a mapping of a new file, all zero.
int ach_init(const struct ach_map *m, const char *name) {
	struct init a = {m, name};
	return ach_guarded(init, &a);
}

// A writer inside put holds the lock: dirty beside a free lock, the sequence standing still, is what a dead writer leaves.
static int dead_writer(struct ach_header *h) {
	uint64_t seq = ACH_ACQUIRE(h->last_seq);
	for (int i = 0; i < 3; i++)
		if ((ACH_ACQUIRE(h->mutex.__data.__lock) & OWNER_TID) || !ACH_ACQUIRE(h->dirty))
			return 0;
	return !(ACH_ACQUIRE(h->mutex.__data.__lock) & OWNER_TID) && ACH_ACQUIRE(h->last_seq) == seq;
}

static int check(void *arg) {
	const struct ach_map *m = arg;
	struct ach_header *h = header_of(m);
	const char *base = (const char *)m->base;
	uint64_t guards[3];
	memcpy(&guards[0], base + sizeof *h, 8);
	memcpy(&guards[1], base + sizeof *h + 8 + m->index_cnt * sizeof(struct ach_entry), 8);
	memcpy(&guards[2], base + m->len - 8, 8);
	if (ACH_LOAD(h->magic) != ACH_MAGIC)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_MAGIC);
	if (ACH_LOAD(h->index_cnt) != m->index_cnt || ACH_LOAD(h->data_size) != m->data_size)
		return ACH_REINIT;
	if (ACH_LOAD(h->len) != m->len)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_LEN);
	if (guards[0] != ACH_GUARD_HEADER)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_HEADER);
	if (guards[1] != ACH_GUARD_INDEX)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_INDEX);
	if (guards[2] != ACH_GUARD_DATA)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_DATA);
	if ((ACH_LOAD(h->mutex.__data.__kind) & ~2) != 0xb0)
		return ACH_WRONG(ACH_FOREIGN, ACH_WHY_MUTEX);
	if (ACH_LOAD(h->index_head) >= m->index_cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	return dead_writer(h) ? ACH_DIRTY : ACH_OK;
}

int ach_check(const struct ach_map *m) { return ach_guarded(check, (void *)m); }

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
	a->stat->owner = ACH_LOAD(h->mutex.__data.__lock) & OWNER_TID;
	a->stat->waiters = ach_cond_waiters(h);
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

// A tag half written when its writer dies must never claim a frame that was not put: a changed identity or epoch goes through seq 0.
static int set_tag(void *arg) {
	struct words *a = arg;
	struct ach_tag *to = &header_of(a->m)->tag;
	if (memcmp(to, a->tag, offsetof(struct ach_tag, seq))) {
		__atomic_store_n(&to->seq, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&to->magic, 0, __ATOMIC_SEQ_CST);
		memcpy(to->node, a->tag->node, sizeof to->node);
		__atomic_store_n(&to->channel, a->tag->channel, __ATOMIC_SEQ_CST);
		__atomic_store_n(&to->epoch, a->tag->epoch, __ATOMIC_SEQ_CST);
		__atomic_store_n(&to->magic, a->tag->magic, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&to->seq, a->tag->seq, __ATOMIC_SEQ_CST);
	return ACH_OK;
}

int ach_set_tag(const struct ach_map *m, const struct ach_tag *t) {
	struct words a = {.m = m, .tag = (struct ach_tag *)t};
	return ach_guarded(set_tag, &a);
}
