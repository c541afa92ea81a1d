// How long put and get hold the lock: hold PATH COUNT SIZE, on a channel of 16 frames of SIZE that nobody else uses.
// Link our C parts with -Wl,--wrap=ach_lock,--wrap=ach_unlock: the clock is read where the lock has just been taken and where
// it is about to be given back, without a hook in the code that is measured. A bare memcpy of SIZE into a ring of the same size,
// between two readings of the same clock, takes turns with them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../ach.h"
#include "peer/frame.h"

int __real_ach_lock(struct ach_header *h, int64_t limit_ns);
void __real_ach_unlock(struct ach_header *h);

static uint64_t taken, held;

int __wrap_ach_lock(struct ach_header *h, int64_t limit_ns) {
	int status = __real_ach_lock(h, limit_ns);
	taken = now_ns();
	return status;
}

void __wrap_ach_unlock(struct ach_header *h) {
	held = now_ns() - taken;
	__real_ach_unlock(h);
}

static int ascending(const void *a, const void *b) {
	return (*(uint64_t *)a > *(uint64_t *)b) - (*(uint64_t *)a < *(uint64_t *)b);
}

static void print(const char *what, uint64_t *ns, size_t n) {
	qsort(ns, n, sizeof *ns, ascending);
	printf("%s_p50=%lu %s_p99=%lu ", what, (unsigned long)ns[n / 2], what, (unsigned long)ns[n * 99 / 100]);
}

int main(int argc, char **argv) {
	if (argc != 4)
		return 2;
	size_t count = strtoul(argv[2], NULL, 10), size = strtoul(argv[3], NULL, 10);
	struct ach_map m = {0, sizeof(struct ach_header) + 24 + 16 * (sizeof(struct ach_entry) + size), 16, 16 * size};
	int fd = open(argv[1], O_RDWR);
	m.base = (uintptr_t)mmap(NULL, m.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	unsigned char *frame = malloc(size), *ring = malloc(16 * size), *into = malloc(size);
	uint64_t *copy = malloc(8 * count), *put = malloc(8 * count), *get = malloc(8 * count);
	memset(frame, 1, size), memset(ring, 1, 16 * size), memset(into, 1, size);
	struct ach_put out = {0};
	struct ach_reader r = {.next_index = 1};
	for (size_t i = 0; i < count; i++) {
		uint64_t before = now_ns();
		memcpy(ring + i % 16 * size, frame, size);
		__asm__ volatile("" ::"r"(ring) : "memory");
		copy[i] = now_ns() - before;
		if (ach_put(&m, &out, frame, size) != ACH_OK)
			return 1;
		put[i] = held;
		if (ach_get(&m, &r, into, size, 0, fd) != ACH_OK)
			return 1;
		get[i] = held;
	}
	print("copy", copy, count);
	print("put", put, count);
	print("get", get, count);
	puts("");
	return 0;
}
