// put: one call locks, makes room, copies and unlocks.
#define _GNU_SOURCE
#include "ring.h"

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

// The stores of a large memcpy may go past the caches, and then become visible before stores that precede them.
static void fence_for_streaming(uint64_t len) {
	(void)len;
#if defined(__x86_64__)
	if (len > ACH_STREAMED)
		__builtin_ia32_sfence();
#endif
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
	fence_for_streaming(len);
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
	int status = ring_check(&v);
	if (status)
		return status;
	if (a->len > v.size)
		return ACH_OVERFLOW;
	make_resident((unsigned char *)a->frame, a->len, 0);
	if ((status = lock_clean(&v, a->out->limit_ns)))
		return status;
	struct plan p;
	status = a->out->only && ACH_LOAD(v.h->last_seq) != a->out->after ? ACH_MOVED : plan_put(&v, &p, a->len);
	if (!status)
		a->out->seq = commit(&v, &p, a->frame, a->len);
	ach_unlock(v.h);
	a->out->waiters = status ? 0 : ach_cond_wake_some(v.h);
	return status;
}

int ach_put(const struct ach_map *m, struct ach_put *out, const void *frame, size_t len) {
	struct put a = {m, out, frame, len};
	return ach_guarded(put, &a);
}
