// For how long this host has been suspended: not of a channel, but the one other thing that Go asks a system call for and C does not.
#include <stdint.h>
#include <time.h>

static int64_t ns_of(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Never more than it was. Time that passes between the two readings makes it less: then once more.
int64_t ach_suspended(void) {
	int64_t most = 0;
	for (int tries = 0; tries < 4; tries++) {
		int64_t before = ns_of(CLOCK_MONOTONIC), boot = ns_of(CLOCK_BOOTTIME), after = ns_of(CLOCK_MONOTONIC);
		if (boot - after > most)
			most = boot - after;
		if (after - before < 10000)
			break;
	}
	return most;
}
