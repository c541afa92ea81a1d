// condvar SEED ROUNDS: glibc's broadcast and ours on two variables that look as if the same processes waited in them, again and
// again. Prints the layout, in how many rounds the words differed afterwards, and how many of three threads that waited went on
// after one signal of glibc's and one broadcast of ours. Compiled with -DUNKNOWN it has a C library
// that broadcasts in another way.
#include <pthread.h>

#ifdef UNKNOWN
#define pthread_cond_broadcast(cond) (void)++*(unsigned *)(cond)
#endif

#include "../cond.c"

#include <stdio.h>
#include <stdlib.h>

int ach_guarded(int (*fn)(void *), void *arg) { return fn(arg); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waited_for;
static int woken;

static void *wait_once(void *unused) {
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&waited_for, &mutex);
	woken++;
	pthread_mutex_unlock(&mutex);
	return unused;
}

static int woken_is(int want) {
	int got = 0;
	for (int i = 0; i < 5000 && got < want; i++) {
		nanosleep(&(struct timespec){0, 1000000}, NULL);
		pthread_mutex_lock(&mutex);
		got = woken;
		pthread_mutex_unlock(&mutex);
	}
	return got;
}

// A signal, as a waiter sends it whose time was over when it was woken, leaves a group of which some still sleep.
static int wake_after_signal(const pthread_condattr_t *attr) {
	pthread_t threads[3];
	uint32_t *words = (uint32_t *)&waited_for;
	pthread_cond_init(&waited_for, attr);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, wait_once, NULL);
	while (ACH_LOAD(words[known->wrefs]) >> 3 < 3)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	nanosleep(&(struct timespec){0, 50000000}, NULL); // they fall asleep
	pthread_mutex_lock(&mutex); // each has given it back in its wait
	pthread_cond_signal(&waited_for);
	pthread_mutex_unlock(&mutex);
	woken_is(1);
	broadcast(known, words, ACH_WAKE_NS);
	return woken_is(3);
}

int main(int argc, char **argv) {
	if (argc != 3)
		return 2;
	if (!ach_cond_known()) {
		struct {
			struct ach_header h;
			uint64_t guard;
		} channel = {.h.clock = CLOCK_MONOTONIC, .guard = ACH_GUARD_HEADER}, before;
		memset(&channel.h.cond, 0x5b, sizeof channel.h.cond); // a great many waiters, in whatever layout
		before = channel;
		int status = ach_wake(&(struct ach_map){.base = (uintptr_t)&channel});
		printf("layout=0 waiters=%d status=%d touched=%d\n", ach_cond_waiters(&channel.h), status, memcmp(&channel, &before, sizeof channel) != 0);
		return 0;
	}
	srandom((unsigned)atoi(argv[1]));
	pthread_cond_t both[2];
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&both[0], &attr);
	both[1] = both[0];
	long different = 0;
	for (long i = 0; i < atol(argv[2]); i++) {
		uint32_t came = (uint32_t)random() % 5, left = came ? (uint32_t)random() % came : 0, unsignaled = random() % 3 ? 0 : (uint32_t)random() % 4;
		uint32_t contended = known->refs && random() % 4 == 0; // a wake-up wish that a broadcast which gave up has left
		for (int k = 0; k < 2; k++) {
			uint32_t *words = (uint32_t *)&both[k], g2 = words[0] & 1;
			*(uint64_t *)words += 2 * came;
			words[known->wrefs] = 3 + 8 * ((uint32_t)i % 9);
			words[known->size + g2] -= left;
			words[known->size + (g2 ^ 1)] += unsignaled;
			if (known->refs)
				words[known->refs + (g2 ^ 1)] = contended;
		}
		pthread_cond_broadcast(&both[0]);
		if (i % 9 && broadcast(known, (uint32_t *)&both[1], ACH_WAKE_NS))
			different++;
		different += memcmp(&both[0], &both[1], sizeof both[0]) != 0;
	}
	int got = wake_after_signal(&attr);
	printf("layout=%d different=%ld woken=%d\n", known == &from_2_41 ? 241 : 225, different, got);
	return different != 0;
}
