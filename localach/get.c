// get and flush: one call locks, copies and unlocks; the newest frame also without the lock.
#define _GNU_SOURCE
#include "ring.h"

#include <time.h>
#include <unistd.h>

static int check_entry(const struct ach_entry *e, const struct view *v) {
	if (e->offset >= v->size)
		return ACH_WRONG(ACH_BUG, ACH_WHY_ENTRY_OFFSET);
	if (e->size == 0 || e->size > (v->splits ? v->size : v->size - e->offset))
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_ENTRY_SIZE);
	return ACH_OK;
}

// Returns the number of bytes of a frame before the end of the data: all, unless Ach 1.x has split the frame. The rest of a split
// frame is at the beginning of the data.
static uint64_t before_end(const struct ach_entry *e, const struct view *v) {
	return e->size < v->size - e->offset ? e->size : v->size - e->offset;
}

static void copy_frame(void *buf, const struct view *v, const struct ach_entry *e) {
	uint64_t first = before_end(e, v);
	memcpy(buf, v->data + e->offset, first);
	if (first < e->size)
		memcpy((char *)buf + first, v->data, e->size - first);
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

// What a get works on.
struct get {
	const struct ach_map *m;
	struct ach_reader *r;
	void *buf;
	size_t cap;
	int options, fd;
	struct ach_entry looked; // the large frame whose place in the file was looked at last,
	int hole;                // and what came of it: a status
};

static int same_entry(const struct ach_entry *e, const struct ach_entry *seen) {
	return ACH_LOAD(e->size) == seen->size && ACH_LOAD(e->offset) == seen->offset && ACH_LOAD(e->seq) == seen->seq;
}

// If lseek fails, there is no hole: the file is too short, or its file system has no holes.
static int has_hole(int fd, uint64_t from, uint64_t size) {
	off_t hole = lseek(fd, (off_t)from, SEEK_HOLE);
	return hole >= 0 && (uint64_t)hole < from + size;
}

// A frame in a hole of the file was never put, and to read it through the mapping would give the hole memory. Never under the
// lock: the kernel has lseek wait for whoever gives the file memory, or takes some from it.
static void look(struct get *g, const struct view *v, const struct ach_entry *e) {
	if (e->size < ACH_LARGE || (g->cap && e->size > g->cap) || same_entry(e, &g->looked))
		return;
	g->looked = *e;
	g->hole = ACH_NO_FILE;
	if (g->fd < 0)
		return;
	uint64_t data = (uint64_t)(v->data - (unsigned char *)v->h), first = before_end(e, v);
	int hole = has_hole(g->fd, data + e->offset, first) || (first < e->size && has_hole(g->fd, data, e->size - first));
	g->hole = hole ? ACH_HOLE : ACH_OK;
}

#define NEED_LOCK (-1)
#define NEED_LOOK (-2)

// Whether the frame of e, looked at if it is large, is to be copied. A buffer of no size only asks for that.
static int may_copy(const struct get *g, const struct ach_entry *e) {
	g->r->size = e->size;
	g->r->found = e->seq;
	if (g->cap && e->size > g->cap)
		return ACH_OVERFLOW;
	int status = e->size < ACH_LARGE ? ACH_OK : same_entry(e, &g->looked) ? g->hole : NEED_LOOK;
	return status ? status : e->size > g->cap ? ACH_OVERFLOW : ACH_OK;
}

// Look at the frame that a get with the lock is about to choose: it then looks again at which that is.
static void look_ahead(struct get *g, const struct view *v) {
	uint64_t i = 0;
	if (v->size < ACH_LARGE || choose(v, g->r, g->options, &i) != ACH_OK)
		return;
	struct ach_entry e = load_entry(&v->index[i]);
	if (check_entry(&e, v) == ACH_OK)
		look(g, v, &e);
}

static int get_locked(struct get *g, const struct view *v) {
	struct ach_reader *r = g->r;
	uint64_t i = 0;
	int status = choose(v, r, g->options, &i);
	if (status)
		return status;
	struct ach_entry e = load_entry(&v->index[i]);
	uint64_t last = ACH_LOAD(v->h->last_seq);
	if (e.seq < r->seq || (e.seq == r->seq && last != r->seq) || e.seq > last) // only the newest frame is ever read again
		return ACH_WRONG(ACH_BUG, ACH_WHY_ENTRY_SEQ);
	if ((status = check_entry(&e, v)))
		return status;
	if ((status = may_copy(g, &e)))
		return status;
	copy_frame(g->buf, v, &e);
	return took(r, &e, (i + 1) % v->cnt);
}

#if defined(__x86_64__)
// An empty critical section: whoever was inside put when we copied has left it, or will find that we had left before. Only where
// frames are large enough for stores past the caches; nanoseconds, and no wait.
static int confirmed(const struct view *v, const struct ach_entry *at, const struct ach_entry *seen) {
	if (seen->size <= ACH_STREAMED && v->size / v->cnt <= ACH_STREAMED)
		return 1;
	if (lock_clean(v, ACH_LOCK_ONCE) != ACH_OK)
		return 0;
	int same = same_entry(at, seen);
	ach_unlock(v->h);
	return same;
}

// The newest frame without the lock, so that a reader never delays the writer. Why this is right:
//
// The reader loads last_seq, sees the lock word free and dirty clear, loads the newest entry, then sees the lock word still free and
// last_seq still the same: so the entry is whole, for whoever changes it holds the lock and ends by having moved last_seq. It
// copies the bytes, and loads the entry again. A writer that reuses any of those bytes has zeroed the entry that lists them
// before, and may later list another frame there, but under another sequence number. Stores of one processor become visible in
// program order on x86-64, and loads happen in program order (a fence keeps the copy's loads before the last look): a copy that
// holds one byte of a newer frame is followed by a look that finds the entry changed. Then the reader tries again, and after
// a few times takes the lock.
//
// One kind of store does not keep its order: a memcpy of more than some 16 KiB may store past the caches. In our Put a fence
// stands between zeroing the entries and copying. libach has none there; so a frame above 16 KiB, or of a channel whose
// frames may be that large, counts as read only after an empty critical section: the lock is taken if it is free, the entry
// looked at once more, and the lock given back, which takes nanoseconds. A writer that was inside put before that has made all
// its stores visible by giving the lock back; one that comes later came after the copy.
//
// The one exception is libach's own: a frame larger than the nominal frame size can be overwritten by libach while still listed,
// and then no reader, locked or not, can tell; our Put does not do that.
// Other architectures order stores less strictly, and libach has no fences between them: there every read takes the lock.
static int get_unlocked(struct get *g, const struct view *v) {
	struct ach_reader *r = g->r;
	struct ach_header *h = v->h;
	uint32_t *lock = (uint32_t *)&h->mutex.__data.__lock;
	uint64_t last = ACH_ACQUIRE(h->last_seq);
	if (last == r->seq && !(g->options & ACH_OPT_COPY)) {
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
	if (ACH_ACQUIRE(*lock) != 0 || ACH_ACQUIRE(h->last_seq) != last || e.seq != last || check_entry(&e, v))
		return NEED_LOCK;
	look(g, v, &e);
	int status = may_copy(g, &e);
	if (status)
		return status;
	copy_frame(g->buf, v, &e);
	__builtin_ia32_lfence(); // and a compiler barrier: every byte was loaded before the entry is looked at again
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!same_entry(at, &e) || !confirmed(v, at, &e))
		return NEED_LOCK;
	return took(r, &e, head);
}

// Runs section without the lock, and checks afterwards that no put changed the ring in the meantime. This is for the locks of Ach
// 1.0 and 1.1, which would stay taken if this process died while it held one. Returns 1 and stores the result of section in status.
// Returns 0 if there was a put, or may have been one: g->r is then unchanged, and the result of section is not valid.
//
// A put takes the lock, increases last_seq, and releases the lock. So there was no put if the lock was free after last_seq was
// loaded and is free after section, and last_seq is the same. Taking and releasing the lock are locked instructions, which no store
// of a put passes, not even a non-temporal one. A reader of another program that holds the lock looks like a put.
static int between_puts(int (*section)(struct get *, const struct view *), struct get *g, const struct view *v, int *status) {
	struct ach_header *h = v->h;
	struct ach_reader before = *g->r;
	uint32_t *lock = (uint32_t *)&h->mutex.__data.__lock;
	uint64_t last = ACH_ACQUIRE(h->last_seq);
	if (ACH_ACQUIRE(*lock) != 0 || ACH_ACQUIRE(h->dirty))
		return 0;
	__builtin_ia32_lfence(); // also orders non-temporal loads, which memcpy may use
	*status = section(g, v);
	__builtin_ia32_lfence();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ACH_ACQUIRE(*lock) == 0 && ACH_ACQUIRE(h->last_seq) == last)
		return 1;
	*g->r = before;
	return 0;
}

int ach_reads_lockless(void) { return 1; }
#else
static int get_unlocked(struct get *g, const struct view *v) {
	(void)g, (void)v;
	return NEED_LOCK;
}

static int between_puts(int (*section)(struct get *, const struct view *), struct get *g, const struct view *v, int *status) {
	(void)section, (void)g, (void)v;
	*status = ACH_WRONG(ACH_FOREIGN, ACH_WHY_MUTEX);
	return 1;
}

int ach_reads_lockless(void) { return 0; }
#endif

// Runs section so that no put changes the ring in the meantime: with the lock, or for a lockless channel by between_puts, which is
// repeated until no put interferes. Returns ACH_BUSY after limit_ns.
static int exclude_puts(int (*section)(struct get *, const struct view *), struct get *g, const struct view *v, int64_t limit_ns) {
	int status;
	if (!g->m->lockless) {
		if ((status = lock_clean(v, limit_ns)))
			return status;
		status = section(g, v);
		ach_unlock(v->h);
		return status;
	}
	for (int i = 0; i < 200; i++) {
		if (between_puts(section, g, v, &status))
			return status;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	if (dead_writer(v->h))
		return ACH_DIRTY;
	struct timespec nap = {0, 50000};
	for (int64_t start = ach_now_ns(); ach_now_ns() - start < limit_ns; nanosleep(&nap, NULL))
		if (between_puts(section, g, v, &status))
			return status;
	return ACH_BUSY;
}

#define LOOKS 4 // at large frames, each of which was replaced before the lock was ours

static int get(void *arg) {
	struct get *g = arg;
	struct view v = view_of(g->m);
	g->r->size = g->r->missed = 0;
	int status = ring_check(&v);
	if (status)
		return status;
	if (g->m->lockless && ACH_ACQUIRE(v.h->last_seq) == g->r->seq && !(g->options & ACH_OPT_COPY))
		return ACH_STALE;
	for (int i = 0; i < 4 && !g->m->lockless && (g->options & (ACH_OPT_LAST | ACH_OPT_LOCKED)) == ACH_OPT_LAST; i++)
		if ((status = get_unlocked(g, &v)) != NEED_LOCK)
			return status;
	make_resident(g->buf, g->cap < v.size ? g->cap : v.size, 1);
	for (int i = 0; i < LOOKS; i++) {
		look_ahead(g, &v);
		status = exclude_puts(get_locked, g, &v, i || g->options & ACH_OPT_TRY ? 0 : ACH_LOCK_NS);
		if (status != NEED_LOOK)
			return status;
	}
	return ACH_BUSY;
}

int ach_get(const struct ach_map *m, struct ach_reader *r, void *buf, size_t cap, int options, int fd) {
	struct get g = {.m = m, .r = r, .buf = buf, .cap = cap, .options = options, .fd = fd};
	return ach_guarded(get, &g);
}

static int flush_locked(struct get *g, const struct view *v) {
	uint64_t last = ACH_LOAD(v->h->last_seq), head = ACH_LOAD(v->h->index_head);
	if (head >= v->cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	if (last < g->r->seq)
		return ACH_WRONG(ACH_REINIT, ACH_WHY_LAST_SEQ);
	g->r->seq = last;
	g->r->next_index = head;
	return ACH_OK;
}

static int flush(void *arg) {
	struct get *g = arg;
	struct view v = view_of(g->m);
	int status = ring_check(&v);
	return status ? status : exclude_puts(flush_locked, g, &v, ACH_LOCK_NS);
}

int ach_flush(const struct ach_map *m, struct ach_reader *r) {
	struct get g = {.m = m, .r = r, .fd = -1};
	return ach_guarded(flush, &g);
}
