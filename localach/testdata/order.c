// order PATH COUNT SIZE LEN: what put does in which order, and how often get takes the lock, on a channel of COUNT frames of SIZE
// bytes that nobody else uses, with frames of about LEN bytes. Link our C parts with -Wl,--wrap=memcpy,--wrap=ach_lock,--wrap=ach_unlock,--wrap=lseek.
//
// Frames are put from memory, and got into memory, that was not touched before. Prints early: puts that copied bytes which an entry still listed; locks: taken by gets of the newest frame; waited: those of
// them that would have waited; faults: pages that came into memory while the lock was held; got: frames that came whole;
// stale: whether a get counted a frame whose bytes others reused just before it looked again under the lock; looks: into the file,
// for holes; under: those of them with the lock held; and replaced and chased: what a get with the lock gives whose frame others
// replace after its first look, and after each.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../ring.h"

void *__real_memcpy(void *to, const void *from, size_t n);
int __real_ach_lock(struct ach_header *h, int64_t limit_ns);
void __real_ach_unlock(struct ach_header *h);
off_t __real_lseek(int fd, off_t offset, int whence);

static struct view ring;
static int early, locks, waited, depth;
static long faults, before;
static int looks, under, replace; // replace: after how many looks more
static void (*meddle)(void); // done once, before the lock is taken by who does not wait for it

static long minor(void) {
	struct rusage u;
	getrusage(RUSAGE_THREAD, &u);
	return u.ru_minflt + u.ru_majflt;
}

void *__wrap_memcpy(void *to, const void *from, size_t n) {
	unsigned char *at = to;
	if (ring.data && at >= ring.data && at < ring.data + ring.size)
		for (uint64_t i = 0; i < ring.cnt; i++) {
			struct ach_entry *e = &ring.index[i];
			uint64_t head = (uint64_t)(at - ring.data);
			early += e->size && e->offset < head + n && head < e->offset + e->size;
		}
	return __real_memcpy(to, from, n);
}

int __wrap_ach_lock(struct ach_header *h, int64_t limit_ns) {
	if (limit_ns == ACH_LOCK_ONCE && meddle) {
		void (*others)(void) = meddle;
		meddle = NULL;
		others();
	}
	locks++;
	waited += limit_ns != ACH_LOCK_ONCE;
	depth++;
	before = minor();
	return __real_ach_lock(h, limit_ns);
}

void __wrap_ach_unlock(struct ach_header *h) {
	depth--;
	faults += minor() - before;
	__real_ach_unlock(h);
}

static struct ach_map m;
static int ring_fd;
static unsigned char *frame;

static void go_round(void) {
	struct ach_put out = {.limit_ns = 0};
	memset(frame, 0xee, m.data_size / m.index_cnt);
	for (uint64_t i = 0; i < m.index_cnt; i++)
		ach_put(&m, &out, frame, m.data_size / m.index_cnt);
}

off_t __wrap_lseek(int fd, off_t offset, int whence) {
	looks++;
	under += depth > 0;
	off_t at = __real_lseek(fd, offset, whence);
	if (replace > 0 && depth == 0) {
		replace--;
		go_round();
	}
	return at;
}

// Get the oldest frame, of which others replace so many first.
static int get_replaced(int times) {
	uint64_t size = m.data_size / m.index_cnt;
	unsigned char *into = malloc(size);
	struct ach_reader r = {.next_index = 1};
	go_round();
	replace = times;
	int status = ach_get(&m, &r, into, size, 0, ring_fd);
	replace = 0;
	free(into);
	return status;
}

// Get the newest frame while others go round the whole ring.
static int count_stale(void) {
	uint64_t size = m.data_size / m.index_cnt;
	unsigned char *into = malloc(size);
	struct ach_put out = {.limit_ns = 0};
	struct ach_reader r = {.next_index = 1};
	memset(frame, 1, size);
	ach_put(&m, &out, frame, size);
	meddle = go_round;
	int status = ach_get(&m, &r, into, size, ACH_OPT_LAST, ring_fd);
	int stale = !meddle && ((status != ACH_OK && status != ACH_MISSED) || into[0] != 0xee);
	meddle = NULL;
	free(into);
	return stale;
}

int main(int argc, char **argv) {
	if (argc != 5)
		return 2;
	uint64_t count = strtoull(argv[2], NULL, 10), size = strtoull(argv[3], NULL, 10), most = strtoull(argv[4], NULL, 10);
	m = (struct ach_map){0, sizeof(struct ach_header) + 24 + count * (sizeof(struct ach_entry) + size), count, count * size};
	ring_fd = open(argv[1], O_RDWR);
	m.base = (uintptr_t)mmap(NULL, m.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_fd, 0);
	ring = view_of(&m);
	frame = malloc(most > size ? most : size);
	struct ach_put out = {.limit_ns = 0};
	struct ach_reader r = {.next_index = 1};
	int got = 0, taken = 0, waits = 0;
	minor();
	for (uint64_t i = 0; i < 10 * count; i++) {
		uint64_t len = most - i % 3;
		memset(frame, (int)i + 1, most);
		unsigned char *from = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (ach_put(&m, &out, from, len) || ach_put(&m, &out, frame, len))
			return 1;
		munmap(from, most);
		locks = waited = 0;
		unsigned char *into[2];
		int ok = 1;
		for (int k = 0; k < 2; k++) {
			into[k] = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			struct ach_reader again = {.next_index = 1, .seq = out.seq - 1};
			int status = k ? ach_get(&m, &again, into[k], most, 0, ring_fd) : ach_get(&m, &r, into[k], most, ACH_OPT_LAST, ring_fd);
			if (k == 0)
				taken += locks, waits += waited;
			ok = ok && (status == ACH_OK || status == ACH_MISSED) && r.size == len && !memcmp(into[k], frame, len);
			munmap(into[k], most);
		}
		got += ok;
	}
	int seen = looks, stale = count_stale(), replaced = get_replaced(1), chased = get_replaced(1000);
	printf("early=%d locks=%d waited=%d faults=%ld got=%d stale=%d looks=%d under=%d replaced=%d chased=%d depth=%d word=%d\n",
		early, taken, waits, faults, got, stale, seen, under, replaced, chased, depth, ring.h->mutex.__data.__lock);
	return 0;
}
