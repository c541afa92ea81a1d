// peer PATH VERB ARGS...: a program that uses one Ach channel, for the tests to run, compare with and kill.
//
//   create COUNT SIZE [in-place|1.0|1.2]  make the channel; in-place: initialise an existing file again, as `ach mk -t`; 1.0 or 1.2: as Ach 1.x
//   put COUNT SIZE PERIOD_NS WRITER  COUNT frames (0: until SIGTERM); SIZE is N, MIN-MAX, or MIN-MAX+OFTEN, where a quarter has OFTEN bytes;
//                                    below 10,000 ns PERIOD_NS is a pause without sleep
//   put-1.x COUNT SIZE PERIOD_NS WRITER  the same as Ach 1.x does it
//   get COUNT OPTIONS TIMEOUT_MS [W] COUNT frames (0: until SIGTERM, or until TIMEOUT_MS without a frame when waiting); OPTIONS: w(ait) l(ast) c(opy) or -;
//                                    counts, of those that arrive, the frames of writers numbered W and above
//   spin-put SIZE | spin-get         the same frame again and again, or the newest: most time inside the lock, to be killed there
//   follow FILE SLOT MAX_US          waits for each frame, untimed when MAX_US is 0, else for a random time up to that, and stores the number of
//                                    the newest frame it has seen in the 64-bit word SLOT of FILE, until it is killed
//   wait                             wait on the condition variable without a timeout, to be killed meanwhile
//   die-in-put | die-locked          SIGKILL itself inside put (dirty stays 1), or as a reader that holds the lock
//   hold MS                          hold the lock that long
//   bench-put|bench-get COUNT SIZE   ns per operation, one process, no contention
//   layout                           offsets as this machine's compiler has them
//   loop COUNT PERIOD_NS             a control loop without a channel: how late it wakes in each of COUNT periods
//   burn                             keep one core busy, without a channel
//
// Each prints "ready" once it is at work and one line of key=value at the end; exit 0 only if every frame was intact and in order.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "channel.h"
#include "frame.h"

#define SAMPLES (1u << 20)
#define BUFFER (4u << 20)

static volatile sig_atomic_t stop;
static unsigned char buffer[BUFFER];
static uint64_t samples[SAMPLES];
static size_t sampled;
static void on_term(int sig) { stop = sig; }
static void ready(void) { puts("ready"), fflush(stdout); }
static void sample(uint64_t ns) { samples[sampled++ % SAMPLES] = ns; }
static int ascending(const void *a, const void *b) { return (*(uint64_t *)a > *(uint64_t *)b) - (*(uint64_t *)a < *(uint64_t *)b); }

static void print_samples(void) {
    size_t n = sampled < SAMPLES ? sampled : SAMPLES;
    if (n == 0) return;
    qsort(samples, n, sizeof *samples, ascending);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)samples[i];
    printf(" mean_ns=%.0f", sum / (double)n);
    printf(" p50_ns=%lu p99_ns=%lu p999_ns=%lu max_ns=%lu", (unsigned long)samples[n / 2], (unsigned long)samples[n * 99 / 100],
           (unsigned long)samples[n * 999 / 1000], (unsigned long)samples[n - 1]);
}

static void sleep_until(uint64_t ns) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

static size_t pick_size(const char *spec) {
    char *end;
    size_t lo = strtoul(spec, &end, 10), hi = *end == '-' ? strtoul(end + 1, &end, 10) : lo;
    if (*end == '+' && random() % 4 == 0) return strtoul(end + 1, NULL, 10);
    return lo + (hi > lo ? (size_t)random() % (hi - lo + 1) : 0);
}

static int put(struct channel *c, char **a) {
    uint64_t count = strtoull(a[0], NULL, 10), period = strtoull(a[2], NULL, 10), writer = strtoull(a[3], NULL, 10), n = 0;
    enum status s = OK;
    srandom((unsigned)writer);
    ready();
    for (uint64_t next = now_ns(); !stop && !s && (count == 0 || n < count);) {
        size_t size = pick_size(a[1]);
        frame_make(buffer, size, writer, n + 1);
        uint64_t before = now_ns();
        s = channel_put(c, buffer, size);
        sample(now_ns() - before);
        if (!s) n++;
        if (period == 0) continue;
        if (period < 10000)
            for (next = now_ns() + period; now_ns() < next;) continue;
        else
            sleep_until(next += period);
    }
    printf("put=%lu status=%d", (unsigned long)n, s);
    print_samples();
    puts("");
    return s != OK;
}

// in_order keeps the newest count seen of each writer (numbers below 64) and refuses to go back.
static int in_order(const struct stamp *s, int copy) {
    static uint64_t newest[64];
    uint64_t *last = &newest[s->writer % 64], before = *last;
    *last = s->count;
    return s->count > before || (copy && s->count == before);
}

static int get(struct channel *c, char **a) {
    uint64_t count = strtoull(a[0], NULL, 10), n = 0, bad = 0, missed = 0, back = 0;
    int options = (strchr(a[1], 'w') ? WAIT : 0) | (strchr(a[1], 'l') ? LAST : 0) | (strchr(a[1], 'c') ? COPY : 0);
    int64_t timeout = strtoll(a[2], NULL, 10) * 1000000;
    uint64_t from = a[3] ? strtoull(a[3], NULL, 10) : 0;
    enum status s = OK;
    ready();
    while (!stop && (count == 0 || n < count)) {
        size_t len = 0;
        struct stamp t;
        uint64_t before = c->seq_num;
        s = channel_get(c, buffer, sizeof buffer, &len, options, timeout);
        if (s == STALE) continue;
        if (s != OK && s != MISSED) break;
        missed += s == MISSED;
        s = OK;
        if (!frame_ok(buffer, len, &t)) bad++;
        else {
            n += t.writer >= from;
            sample(now_ns() - t.time_ns);
            back += !in_order(&t, options & COPY) || c->seq_num < before + !(options & COPY);
        }
    }
    printf("got=%lu bad=%lu back=%lu missed=%lu status=%d", (unsigned long)n, (unsigned long)bad, (unsigned long)back, (unsigned long)missed, s);
    print_samples();
    puts("");
    return bad || back || (count && n < count);
}

static int spin(struct channel *c, size_t put_size) {
    size_t len;
    frame_make(buffer, put_size, 1, 1);
    ready();
    for (enum status s;;) {
        s = put_size ? channel_put(c, buffer, put_size) : channel_get(c, buffer, sizeof buffer, &len, LAST | COPY, 0);
        if (s != OK && s != MISSED && s != STALE) return printf("status=%d\n", s), 1;
    }
}

static int follow(struct channel *c, char **a) {
    int fd = open(a[0], O_RDWR);
    uint64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *seen = words + strtoul(a[1], NULL, 10);
    long max_us = strtol(a[2], NULL, 10);
    size_t len;
    srandom((unsigned)getpid());
    ready();
    for (;;) {
        enum status s = channel_get(c, buffer, sizeof buffer, &len, WAIT | LAST, max_us ? (1 + random() % max_us) * 1000 : 0);
        if (s == OK || s == MISSED) __atomic_store_n(seen, c->seq_num, __ATOMIC_SEQ_CST);
        else if (s != TIMEOUT) return printf("status=%d\n", s), 1;
    }
}

static int wait_for_ever(struct channel *c) {
    size_t len;
    ready();
    for (;;) {
        enum status s = channel_get(c, buffer, sizeof buffer, &len, WAIT | LAST, 0);
        if (s != OK && s != MISSED) return printf("status=%d\n", s), 1;
    }
}

static int die(struct channel *c, int dirty) {
    enum status s = channel_lock(c);
    if (s) return printf("status=%d\n", s), 1;
    c->h->sync.dirty = dirty;
    return raise(SIGKILL);
}

static int hold(struct channel *c, long ms) {
    enum status s = channel_lock(c);
    if (s) return printf("status=%d\n", s), 1;
    ready();
    usleep((useconds_t)ms * 1000);
    pthread_mutex_unlock(&c->h->sync.mutex);
    return 0;
}

// bench times COUNT operations on a buffer that is in memory already.
static int bench(struct channel *c, int is_put, char **a) {
    size_t count = strtoul(a[0], NULL, 10), size = strtoul(a[1], NULL, 10), len;
    frame_make(buffer, size, 1, 1);
    enum status s = channel_put(c, buffer, size);
    ready();
    uint64_t start = now_ns();
    for (size_t i = 0; i < count && (s == OK || s == MISSED); i++)
        s = is_put ? channel_put(c, buffer, size) : channel_get(c, buffer, sizeof buffer, &len, LAST | COPY, 0);
    printf("ns_per_op=%.1f status=%d\n", (double)(now_ns() - start) / (double)count, s);
    return s != OK && s != MISSED;
}

static int loop(uint64_t count, uint64_t period) {
    prctl(PR_SET_TIMERSLACK, 1UL); // as control loops do: it is 50 µs otherwise
    ready();
    uint64_t next = now_ns();
    while (!stop && count--) {
        sleep_until(next += period);
        sample(now_ns() - next);
    }
    printf("late");
    print_samples();
    puts("");
    return 0;
}

static int burn(void) {
    ready();
    while (!stop) continue;
    return 0;
}

static int layout(void) {
    printf("header=%zu mutex=%zu mutex_size=%zu cond=%zu dirty=%zu last_seq=%zu index_cnt=%zu clock=%zu name=%zu entry=%zu total_4x16=%zu\n", sizeof(struct header),
           offsetof(struct header, sync.mutex), sizeof(pthread_mutex_t), offsetof(struct header, sync.cond), offsetof(struct header, sync.dirty),
           offsetof(struct header, last_seq), offsetof(struct header, index_cnt), offsetof(struct header, clock), offsetof(struct header, name), sizeof(struct entry),
           sizeof(struct header) + 4 * (sizeof(struct entry) + 16) + 24);
    return 0;
}

int main(int argc, char **argv) {
    char *verb = argc > 2 ? argv[2] : "", **a = argv + 3;
    int n = argc - 3;
    struct channel c;
    alarm(600); // whoever was to stop us is gone
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    if (!strcmp(verb, "layout")) return layout();
    if (!strcmp(verb, "loop") && n == 2) return loop(strtoull(a[0], NULL, 10), strtoull(a[1], NULL, 10));
    if (!strcmp(verb, "burn")) return burn();
    if (!strcmp(verb, "create") && n >= 2) {
        enum version v = n < 3 ? ACH_2 : !strcmp(a[2], "1.0") ? ACH_1_0 : !strcmp(a[2], "1.2") ? ACH_1_2 : ACH_2;
        enum status s = channel_create_as(argv[1], strtoul(a[0], NULL, 10), strtoul(a[1], NULL, 10), n > 2 && v == ACH_2, v);
        return printf("status=%d\n", s), s != OK;
    }
    enum status s = channel_open(&c, argc > 1 ? argv[1] : "");
    if (s) return printf("open status=%d\n", s), 2;
    if (!strcmp(verb, "put-1.x")) c.version = ACH_1_2, verb = "put";
    if (!strcmp(verb, "put") && n == 4) return put(&c, a);
    if (!strcmp(verb, "get") && n >= 3) return get(&c, a);
    if (!strcmp(verb, "spin-put") && n == 1) return spin(&c, strtoul(a[0], NULL, 10));
    if (!strcmp(verb, "spin-get")) return spin(&c, 0);
    if (!strcmp(verb, "follow") && n == 3) return follow(&c, a);
    if (!strcmp(verb, "wait")) return wait_for_ever(&c);
    if (!strcmp(verb, "die-in-put")) return die(&c, 1);
    if (!strcmp(verb, "die-locked")) return die(&c, 0);
    if (!strcmp(verb, "hold") && n == 1) return hold(&c, strtol(a[0], NULL, 10));
    if (!strncmp(verb, "bench-", 6) && n == 2) return bench(&c, !strcmp(verb, "bench-put"), a);
    return fprintf(stderr, "usage: see main.c\n"), 2;
}
