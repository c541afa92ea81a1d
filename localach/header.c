// The header: made, checked, and made unusable.
#define _GNU_SOURCE
#include "ring.h"

#include <time.h>

_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8, "localach knows the 64-bit layout of Ach channels only");
_Static_assert(offsetof(struct ach_header, index_cnt) == 88, "index_cnt");
_Static_assert(offsetof(struct ach_header, tag) == 144, "tag");
_Static_assert(offsetof(struct ach_header, mutex) == 216, "mutex");
_Static_assert(offsetof(struct ach_header, cond) == 216 + sizeof(pthread_mutex_t), "cond");
_Static_assert(offsetof(struct ach_header, last_seq) == sizeof(struct ach_header) - 8, "last_seq");

static struct ach_header *header_of(const struct ach_map *m) { return (struct ach_header *)m->base; }

static void put_word(const struct ach_map *m, uint64_t offset, uint64_t word) {
	memcpy((char *)m->base + offset, &word, sizeof word);
}

// What glibc makes of a mutex and a condition variable is made in memory of our own and copied: none of its functions works on
// memory that others can write.
static int init_mutex(pthread_mutex_t *shared) {
	pthread_mutex_t mutex;
	pthread_mutexattr_t attr;
	memset(&mutex, 0, sizeof mutex);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	int err = pthread_mutex_init(&mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	memcpy(shared, &mutex, sizeof mutex);
	return err;
}

static int init_cond(pthread_cond_t *shared) {
	pthread_cond_t cond;
	pthread_condattr_t attr;
	memset(&cond, 0, sizeof cond);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int err = pthread_cond_init(&cond, &attr);
	pthread_condattr_destroy(&attr);
	memcpy(shared, &cond, sizeof cond);
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

static int check(void *arg) {
	struct view v = view_of(arg);
	int status = ring_check(&v);
	if (status)
		return status;
	if (ACH_LOAD(v.h->len) != ((const struct ach_map *)arg)->len)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_LEN);
	if (((const struct ach_map *)arg)->lockless ? !ach_lock_plain(v.h) : !ach_lock_known(v.h))
		return ACH_WRONG(ACH_FOREIGN, ACH_WHY_MUTEX);
	if (ACH_LOAD(v.h->index_head) >= v.cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	return dead_writer(v.h) ? ACH_DIRTY : ACH_OK;
}

int ach_check(const struct ach_map *m) { return ach_guarded(check, (void *)m); }

// Make the file unusable for everybody: readers by their next call (guards), readers waiting now (last_seq moves on, to entries
// that point nowhere), broadcasts that hang.
static int poison(void *arg) {
	struct view v = view_of(arg);
	int locked = ach_lock(v.h, ACH_LOCK_NS) == ACH_OK;
	for (uint64_t i = 0; i < v.cnt; i++)
		ACH_STORE(v.index[i].offset, UINT64_MAX);
	ACH_STORE(v.h->last_seq, ACH_LOAD(v.h->last_seq) + 1);
	uint64_t broken = 0;
	memcpy(v.h + 1, &broken, 8);
	memcpy(v.index + v.cnt, &broken, 8);
	memcpy(v.data + v.size, &broken, 8);
	if (locked)
		ach_unlock(v.h);
	ach_cond_release(v.h);
	return ACH_OK;
}

int ach_poison(const struct ach_map *m) { return ach_guarded(poison, (void *)m); }
