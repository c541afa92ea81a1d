// put, get and flush: one call locks, copies and unlocks.
#define _GNU_SOURCE
#include "ach.h"

#include <string.h>
#include <time.h>

_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8, "localach knows the 64-bit layout of Ach channels only");
_Static_assert(offsetof(struct ach_header, index_cnt) == 88, "index_cnt");
_Static_assert(offsetof(struct ach_header, tag) == 144 && sizeof(struct ach_tag) <= 72, "tag");
_Static_assert(offsetof(struct ach_header, mutex) == 216, "mutex");
_Static_assert(offsetof(struct ach_header, cond) == 216 + sizeof(pthread_mutex_t), "cond");
_Static_assert(offsetof(struct ach_header, last_seq) == sizeof(struct ach_header) - 8, "last_seq");

struct view {
	struct ach_header *h;
	struct ach_entry *index;
	unsigned char *data;
	uint64_t cnt, size;
};

static struct view view_of(const struct ach_map *m) {
	struct ach_header *h = (struct ach_header *)m->base;
	struct ach_entry *index = (struct ach_entry *)((char *)(h + 1) + 8);
	unsigned char *data = (unsigned char *)(index + m->index_cnt) + 8;
	return (struct view){h, index, data, m->index_cnt, m->data_size};
}

static uint64_t word_at(const void *p) {
	uint64_t w;
	memcpy(&w, p, sizeof w);
	return w;
}

// The marks that never change while a channel lives, and the geometry that our bounds were computed from.
static int check_marks(const struct view *v) {
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

static int lock_clean(const struct view *v, int64_t limit_ns) {
	int status = ach_lock(v->h, limit_ns);
	if (status == ACH_OK && ACH_LOAD(v->h->dirty)) {
		ach_unlock(v->h);
		return ACH_DIRTY;
	}
	return status;
}

static struct ach_entry load_entry(const struct ach_entry *e) {
	struct ach_entry copy;
	copy.size = ACH_LOAD(e->size);
	copy.offset = ACH_LOAD(e->offset);
	copy.seq = ACH_LOAD(e->seq);
	return copy;
}

static int same_entry(const struct ach_entry *e, const struct ach_entry *seen) {
	return ACH_LOAD(e->size) == seen->size && ACH_LOAD(e->offset) == seen->offset && ACH_LOAD(e->seq) == seen->seq;
}

static int check_entry(const struct ach_entry *e, uint64_t data_size) {
	if (e->offset >= data_size)
		return ACH_WRONG(ACH_BUG, ACH_WHY_ENTRY_OFFSET);
	if (e->size == 0 || e->size > data_size - e->offset)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_ENTRY_SIZE);
	return ACH_OK;
}

// Have the pages of a buffer of ours in memory before the lock is taken: no page fault while others wait for us.
static void make_resident(volatile unsigned char *p, size_t len, int write) {
	for (size_t i = 0; i < len; i += 4096)
		write ? (p[i] = p[i]) : (void)p[i];
	if (len)
		write ? (p[len - 1] = p[len - 1]) : (void)p[len - 1];
}

static int took(struct ach_reader *r, const struct ach_entry *e, uint64_t next) {
	int missed = e->seq > r->seq && e->seq - r->seq > 1;
	r->missed = missed ? e->seq - r->seq - 1 : 0;
	r->seq = e->seq;
	r->next_index = next;
	return missed ? ACH_MISSED : ACH_OK;
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
		*chosen = last == r->seq ? newest : (head + unused) % v->cnt;
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
	int status = check_marks(&v);
	if (status)
		return status;
	for (int i = 0; i < 4 && (g->options & (ACH_OPT_LAST | ACH_OPT_LOCKED)) == ACH_OPT_LAST; i++)
		if ((status = get_unlocked(&v, g->r, g->buf, g->cap, g->options)) != NEED_LOCK)
			return status;
	make_resident(g->buf, g->cap < v.size ? g->cap : v.size, 1);
	if ((status = lock_clean(&v, ACH_LOCK_NS)))
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
	int status = check_marks(&v);
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

// What a put will do to the ring, worked out on copies before anything is changed: a file found corrupt on the way stays as it was.
struct plan {
	uint64_t head, data_head, unused, data_free, oldest, freed;
};

static int plan_free(const struct view *v, struct plan *p) {
	struct ach_entry e = load_entry(&v->index[(p->head + p->unused) % v->cnt]);
	if (e.size > v->size)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_ENTRY_SIZE);
	p->data_free = e.size > v->size - p->data_free ? v->size : p->data_free + e.size;
	p->unused++;
	p->freed++;
	return ACH_OK;
}

static int plan_start(const struct view *v, struct plan *p) {
	*p = (struct plan){ACH_LOAD(v->h->index_head), ACH_LOAD(v->h->data_head), ACH_LOAD(v->h->index_free), ACH_LOAD(v->h->data_free), 0, 0};
	if (p->head >= v->cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	if (p->unused > v->cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_FREE);
	if (p->data_head >= v->size)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_DATA_HEAD);
	if (p->data_free > v->size)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_DATA_FREE);
	if (ACH_LOAD(v->h->last_seq) == UINT64_MAX)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_LAST_SEQ);
	p->oldest = (p->head + p->unused) % v->cnt;
	return ACH_OK;
}

// A frame is never split: leave the end of the data area unused and begin at its start. `>=`: libach's `>` lets an oldest frame
// that starts exactly at data_head live on, and be overwritten.
static int plan_wrap(const struct view *v, struct plan *p) {
	while (p->unused < v->cnt) {
		uint64_t offset = ACH_LOAD(v->index[(p->head + p->unused) % v->cnt].offset);
		if (offset >= v->size)
			return ACH_WRONG(ACH_CORRUPT, ACH_WHY_ENTRY_OFFSET);
		if (offset < p->data_head) {
			p->data_free = offset;
			break;
		}
		int status = plan_free(v, p);
		if (status)
			return status;
	}
	if (p->unused == v->cnt)
		p->data_free = v->size;
	p->data_head = 0;
	return ACH_OK;
}

static int plan_put(const struct view *v, struct plan *p, uint64_t len) {
	int status = plan_start(v, p);
	if (!status && p->unused == 0)
		status = plan_free(v, p);
	if (!status && v->size - p->data_head < len)
		status = plan_wrap(v, p);
	while (!status && p->data_free < len) {
		if (p->unused == v->cnt)
			p->data_free = v->size;
		else
			status = plan_free(v, p);
	}
	return status;
}

// The order of the stores is what lock-free readers rely on: entries are zeroed before their bytes are reused.
static uint64_t commit(const struct view *v, const struct plan *p, const void *frame, uint64_t len) {
	struct ach_header *h = v->h;
	uint64_t seq = ACH_LOAD(h->last_seq) + 1;
	ACH_STORE(h->dirty, 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint64_t i = 0; i < p->freed; i++)
		memset(&v->index[(p->oldest + i) % v->cnt], 0, sizeof *v->index);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(v->data + p->data_head, frame, len);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	ACH_STORE(h->last_seq, seq);
	struct ach_entry *e = &v->index[p->head];
	ACH_STORE(e->size, len);
	ACH_STORE(e->offset, p->data_head);
	ACH_STORE(e->seq, seq);
	ACH_STORE(h->data_head, (p->data_head + len) % v->size);
	ACH_STORE(h->data_free, p->data_free - len);
	ACH_STORE(h->index_head, (p->head + 1) % v->cnt);
	ACH_STORE(h->index_free, p->unused - 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	ACH_STORE(h->dirty, 0);
	return seq;
}

struct put {
	const struct ach_map *m;
	struct ach_put *out;
	const void *frame;
	size_t len;
};

static int put(void *arg) {
	struct put *a = arg;
	struct view v = view_of(a->m);
	if (a->len == 0)
		return ACH_EINVAL;
	int status = check_marks(&v);
	if (status)
		return status;
	if (a->len > v.size)
		return ACH_OVERFLOW;
	make_resident((unsigned char *)a->frame, a->len, 0);
	if ((status = lock_clean(&v, a->out->limit_ns)))
		return status;
	struct plan p;
	status = plan_put(&v, &p, a->len);
	if (!status)
		a->out->seq = commit(&v, &p, a->frame, a->len);
	ach_unlock(v.h);
	a->out->waiters = status ? 0 : ach_cond_waiters(v.h);
	return status;
}

int ach_put(const struct ach_map *m, struct ach_put *out, const void *frame, size_t len) {
	struct put a = {m, out, frame, len};
	return ach_guarded(put, &a);
}

static int wake(void *arg) {
	struct view v = view_of(arg);
	if (!ach_cond_foreign(v.h))
		pthread_cond_broadcast(&v.h->cond);
	return ACH_OK;
}

int ach_wake(const struct ach_map *m) { return ach_guarded(wake, (void *)m); }

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
