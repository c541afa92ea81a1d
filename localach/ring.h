// The ring in a mapping: its parts, and what is checked before any of them is used.
#ifndef ACHBRIDGE_RING_H
#define ACHBRIDGE_RING_H

#include "ach.h"

#include <string.h>

struct view {
	struct ach_header *h;
	struct ach_entry *index;
	unsigned char *data;
	uint64_t cnt, size;
	int splits;
};

static inline struct view view_of(const struct ach_map *m) {
	struct ach_header *h = (struct ach_header *)m->base;
	struct ach_entry *index = (struct ach_entry *)((char *)(h + 1) + 8);
	unsigned char *data = (unsigned char *)(index + m->index_cnt) + 8;
	return (struct view){h, index, data, m->index_cnt, m->data_size, m->splits};
}

static inline uint64_t word_at(const void *p) {
	uint64_t w;
	memcpy(&w, p, sizeof w);
	return w;
}

// The marks that never change while a channel lives, and the geometry that our bounds were computed from.
static inline int ring_check(const struct view *v) {
	if (ACH_LOAD(v->h->magic) != ACH_MAGIC)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_MAGIC);
	if (ACH_LOAD(v->h->index_cnt) != v->cnt || ACH_LOAD(v->h->data_size) != v->size)
		return ACH_REINIT;
	if (word_at(v->h + 1) != ACH_GUARD_HEADER)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_HEADER);
	if (word_at(v->index + v->cnt) != ACH_GUARD_INDEX)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_INDEX);
	if (word_at(v->data + v->size) != ACH_GUARD_DATA)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_GUARD_DATA);
	return ACH_OK;
}

// Returns 1 if a writer died inside put. A living writer holds the lock while dirty is set. So dirty with a free lock, while last_seq
// does not change, shows that the writer is dead.
static inline int dead_writer(struct ach_header *h) {
	uint64_t seq = ACH_ACQUIRE(h->last_seq);
	for (int i = 0; i < 3; i++)
		if ((ACH_ACQUIRE(h->mutex.__data.__lock) & ACH_OWNER_TID) || !ACH_ACQUIRE(h->dirty))
			return 0;
	return !(ACH_ACQUIRE(h->mutex.__data.__lock) & ACH_OWNER_TID) && ACH_ACQUIRE(h->last_seq) == seq;
}

static inline int lock_clean(const struct view *v, int64_t limit_ns) {
	int status = ach_lock(v->h, limit_ns);
	if (status == ACH_OK && ACH_LOAD(v->h->dirty)) {
		ach_unlock(v->h);
		return ACH_DIRTY;
	}
	return status;
}

static inline struct ach_entry load_entry(const struct ach_entry *e) {
	struct ach_entry copy;
	copy.size = ACH_LOAD(e->size);
	copy.offset = ACH_LOAD(e->offset);
	copy.seq = ACH_LOAD(e->seq);
	return copy;
}

// Have the pages of a buffer of ours in memory before the lock is taken: no page fault while others wait for us.
static inline void make_resident(volatile unsigned char *p, size_t len, int write) {
	for (size_t i = 0; i < len; i += 4096)
		write ? (p[i] = p[i]) : (void)p[i];
	if (len)
		write ? (p[len - 1] = p[len - 1]) : (void)p[len - 1];
}

#endif
