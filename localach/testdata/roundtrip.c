// Our C parts without Go, for machines that tests only emulate: roundtrip PATH create|put|get COUNT SIZE (of the channel).
// Link with -Wl,--wrap=syscall.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../ach.h"
#include "peer/frame.h"

long __real_syscall(long number, ...);

// qemu-user knows no robust lists: without another process that dies, one that nobody reads will do.
long __wrap_syscall(long number, ...) {
	static struct robust_list_head head;
	long a[6];
	va_list args;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number != SYS_get_robust_list)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	*(struct robust_list_head **)a[1] = &head;
	*(size_t *)a[2] = sizeof head;
	return 0;
}

static struct ach_map map_file(const char *path, int create, uint64_t count, uint64_t size) {
	struct ach_map m = {0, sizeof(struct ach_header) + 24 + count * (sizeof(struct ach_entry) + size), count, count * size};
	int fd = open(path, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0666);
	if (fd < 0 || (create && ftruncate(fd, (off_t)m.len)))
		exit(2);
	m.base = (uintptr_t)mmap(NULL, m.len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return m;
}

int main(int argc, char **argv) {
	if (argc != 5)
		return 2;
	static unsigned char buf[1 << 20];
	const char *verb = argv[2];
	uint64_t count = strtoull(argv[3], NULL, 10), size = strtoull(argv[4], NULL, 10);
	struct ach_map m = map_file(argv[1], !strcmp(verb, "create"), count, size);
	int status = 0;
	uint64_t n = 0;
	if (!strcmp(verb, "create"))
		status = ach_init(&m, "roundtrip");
	struct ach_put out = {.limit_ns = ACH_LOCK_NS};
	for (; !strcmp(verb, "put") && status == ACH_OK && n < count; n++) {
		frame_make(buf, 40 + n % (size - 40), 32, n + 1);
		status = ach_put(&m, &out, buf, 40 + n % (size - 40));
	}
	struct ach_reader r = {.next_index = 1};
	struct stamp s;
	for (; !strcmp(verb, "get") && status == ACH_OK && n < count; n++) {
		status = ach_get(&m, &r, buf, sizeof buf, 0, -1);
		if (status == ACH_OK && (!frame_ok(buf, r.size, &s) || s.count != n + 1))
			return printf("frame %lu is damaged\n", (unsigned long)n), 1;
	}
	printf("status=%d frames=%lu check=%d\n", status, (unsigned long)n, ach_check(&m));
	return status != ACH_OK;
}
