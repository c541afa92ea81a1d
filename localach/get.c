// get and flush: one call locks, copies and unlocks; the newest frame also without the lock.
#define _GNU_SOURCE
#include "ring.h"

static int check_entry(const struct ach_entry *e, uint64_t data_size) {
	if (e->offset >= data_size)
		return ACH_WRONG(ACH_BUG, ACH_WHY_ENTRY_OFFSET);
	if (e->size == 0 || e->size > data_size - e->offset)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_ENTRY_SIZE);
	return ACH_OK;
}

static int took(struct ach_reader *r, const struct ach_entry *e, uint64_t next) {
	int missed = e->seq > r->seq && e->seq - r->seq > 1;
	r->missed = missed ? e->seq - r->seq - 1 : 0;
	r->seq = e->seq;
	r->next_index = next;
	return missed ? ACH_MISSED : ACH_OK;
}

// The entry of frame seq, or the oldest when that is not in the ring any more. Entries follow one another as frames do. libach
// finds the next frame by its reader's next_index alone; a reader made by ReaderAfter has none.
static uint64_t find(const struct view *v, uint64_t seq, uint64_t last, uint64_t newest, uint64_t oldest) {
	uint64_t back = last - seq;
	if (back >= v->cnt)
		return oldest;
	uint64_t i = (newest + v->cnt - back) % v->cnt;
	return ACH_LOAD(v->index[i].seq) == seq ? i : oldest;
}

// The entry that libach's get would return.
static int choose(const struct view *v, const struct ach_reader *r, int options, uint64_t *chosen) {
	uint64_t last = ACH_LOAD(v->h->last_seq), head = ACH_LOAD(v->h->index_head), unused = ACH_LOAD(v->h->index_free);
	if (head >= v->cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	if (unused > v->cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_FREE);
	if (last < r->seq)
		return ACH_WRONG(ACH_REINIT, ACH_WHY_LAST_SEQ);
	if (last == 0 || unused == v->cnt || (last == r->seq && !(options & ACH_OPT_COPY)))
		return ACH_STALE;
	uint64_t newest = (head + v->cnt - 1) % v->cnt, next = r->next_index % v->cnt;
	if (options & ACH_OPT_LAST)
		*chosen = newest;
	else if (ACH_LOAD(v->index[next].seq) == r->seq + 1)
		*chosen = next;
	else
		*chosen = last == r->seq ? newest : find(v, r->seq + 1, last, newest, (head + unused) % v->cnt);
	return ACH_OK;
}

static int get_locked(const struct view *v, struct ach_reader *r, void *buf, size_t cap, int options) {
	uint64_t i = 0;
	int status = choose(v, r, options, &i);
	if (status)
		return status;
	struct ach_entry e = load_entry(&v->index[i]);
	if (e.seq < r->seq || e.seq > ACH_LOAD(v->h->last_seq))
		return ACH_WRONG(ACH_BUG, ACH_WHY_ENTRY_SEQ);
	if ((status = check_entry(&e, v->size)))
		return status;
	r->size = e.size;
	if (e.size > cap)
		return ACH_OVERFLOW;
	memcpy(buf, v->data + e.offset, e.size);
	return took(r, &e, (i + 1) % v->cnt);
}

#define NEED_LOCK (-1)

#if defined(__x86_64__)
static int same_entry(const struct ach_entry *e, const struct ach_entry *seen) {
	return ACH_LOAD(e->size) == seen->size && ACH_LOAD(e->offset) == seen->offset && ACH_LOAD(e->seq) == seen->seq;
}

// The newest frame without the lock: doc.go says why this is right, and why only on x86-64, whose stores and loads keep their order.
static int get_unlocked(const struct view *v, struct ach_reader *r, void *buf, size_t cap, int options) {
	struct ach_header *h = v->h;
	uint32_t *lock = (uint32_t *)&h->mutex.__data.__lock;
	uint64_t last = ACH_ACQUIRE(h->last_seq);
	if (last == r->seq && !(options & ACH_OPT_COPY)) {
		// Nothing new, unless somebody died inside put: the owner is gone, or is marked dead.
		uint32_t owner = ACH_ACQUIRE(*lock);
		return ACH_LOAD(h->dirty) && (owner == 0 || owner & 0x40000000) ? NEED_LOCK : ACH_STALE;
	}
	if (last < r->seq || last == 0 || ACH_ACQUIRE(*lock) != 0 || ACH_ACQUIRE(h->dirty))
		return NEED_LOCK;
	uint64_t head = ACH_ACQUIRE(h->index_head);
	if (head >= v->cnt)
		return NEED_LOCK;
	struct ach_entry *at = &v->index[head ? head - 1 : v->cnt - 1], e = load_entry(at);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (ACH_ACQUIRE(*lock) != 0 || ACH_ACQUIRE(h->last_seq) != last || e.seq != last || check_entry(&e, v->size))
		return NEED_LOCK;
	r->size = e.size;
	if (e.size > cap)
		return ACH_OVERFLOW;
	memcpy(buf, v->data + e.offset, e.size);
	__builtin_ia32_lfence(); // and a compiler barrier: every byte was loaded before the entry is looked at again
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!same_entry(at, &e))
		return NEED_LOCK;
	return took(r, &e, head);
}
#else
static int get_unlocked(const struct view *v, struct ach_reader *r, void *buf, size_t cap, int options) {
	(void)v, (void)r, (void)buf, (void)cap, (void)options;
	return NEED_LOCK;
}
#endif

struct get {
	const struct ach_map *m;
	struct ach_reader *r;
	void *buf;
	size_t cap;
	int options;
};

static int get(void *arg) {
	struct get *g = arg;
	struct view v = view_of(g->m);
	g->r->size = g->r->missed = 0;
	int status = ring_check(&v);
	if (status)
		return status;
	for (int i = 0; i < 4 && (g->options & (ACH_OPT_LAST | ACH_OPT_LOCKED)) == ACH_OPT_LAST; i++)
		if ((status = get_unlocked(&v, g->r, g->buf, g->cap, g->options)) != NEED_LOCK)
			return status;
	make_resident(g->buf, g->cap < v.size ? g->cap : v.size, 1);
	if ((status = lock_clean(&v, g->options & ACH_OPT_TRY ? 0 : ACH_LOCK_NS)))
		return status;
	status = get_locked(&v, g->r, g->buf, g->cap, g->options);
	ach_unlock(v.h);
	return status;
}

int ach_get(const struct ach_map *m, struct ach_reader *r, void *buf, size_t cap, int options) {
	struct get g = {m, r, buf, cap, options};
	return ach_guarded(get, &g);
}

static int flush(void *arg) {
	struct get *g = arg;
	struct view v = view_of(g->m);
	int status = ring_check(&v);
	if (status || (status = lock_clean(&v, ACH_LOCK_NS)))
		return status;
	uint64_t last = ACH_LOAD(v.h->last_seq), head = ACH_LOAD(v.h->index_head);
	ach_unlock(v.h);
	if (head >= v.cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	if (last < g->r->seq)
		return ACH_WRONG(ACH_REINIT, ACH_WHY_LAST_SEQ);
	g->r->seq = last;
	g->r->next_index = head;
	return ACH_OK;
}

int ach_flush(const struct ach_map *m, struct ach_reader *r) {
	struct get g = {m, r, NULL, 0, 0};
	return ach_guarded(flush, &g);
}
