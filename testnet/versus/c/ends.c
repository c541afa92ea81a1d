// ends VERB ARGS...: both ends of every comparison, whatever carries the frames between them.
//
//   ends write PATH HZ BYTES [PATH HZ BYTES]...  make the channels and put a frame each period, until SIGTERM
//   ends read PATH...                            wait for the channels and take every frame in order, until SIGTERM
//
// A PATH may be "udp:ADDRESS:PORT": then the frames are bare datagrams to or on that port, with no channel at either end.
//
// A frame begins with its number and the time of its put (ns of CLOCK_MONOTONIC), both uint64.
// read writes one record per frame to standard output: channel, number, put, got; uint64 each.
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"

#define FRAMES 16         // of a channel, as libach's default
#define POLL_NS 100000000 // how soon a thread sees that it is to end
#define DATAGRAM 65507

static volatile sig_atomic_t stop;
static void on_term(int sig) { stop = sig; }

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

struct task {
    uint64_t number;
    const char *path;
    double rate;
    size_t size;
    double phase; // of a period, so that channels do not put at the same moment
};

static void *fail(const struct task *t, const char *what, int status) {
    fprintf(stderr, "ends: %s: %s: status %d\n", t->path, what, status);
    exit(1);
}

// udp_socket is connected to the task's address or, to read, bound to its port; -1: the task is about a channel.
static int udp_socket(const struct task *t) {
    char host[64];
    int port, reads = t->size == 0;
    if (sscanf(t->path, "udp:%63[^:]:%d", host, &port) != 2) return -1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = inet_addr(host)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = POLL_NS / 1000}, sizeof(struct timeval));
    if ((reads ? bind : connect)(fd, (struct sockaddr *)&a, sizeof a)) fail(t, "socket", fd);
    return fd;
}

static void *write_frames(void *arg) {
    struct task *t = arg;
    struct channel c;
    int udp = udp_socket(t);
    enum status s = udp >= 0 ? OK : channel_create(t->path, FRAMES, t->size, 0);
    if (!s && udp < 0) s = channel_open(&c, t->path);
    if (s) return fail(t, "create", s);
    uint64_t period = (uint64_t)(1e9 / t->rate), next = now_ns() + (uint64_t)(t->phase * (double)period), *frame = malloc(t->size);
    for (size_t i = 0; i < t->size; i++) ((char *)frame)[i] = (char)random(); // so that nothing gains by compressing it
    frame[0] = 0;
    while (!stop) {
        sleep_until(next);
        frame[0]++;
        frame[1] = now_ns();
        if (udp >= 0) send(udp, frame, t->size, 0); // nobody may listen
        if (udp < 0 && (s = channel_put(&c, frame, t->size))) return fail(t, "put", s);
        next += period;
        if (next < now_ns()) next = now_ns(); // missed beats are left out
    }
    return NULL;
}

static void record(const struct task *t, const uint64_t *frame) {
    fwrite((uint64_t[]){t->number, frame[0], frame[1], now_ns()}, sizeof(uint64_t), 4, stdout);
}

static void *read_frames(void *arg) {
    struct task *t = arg;
    struct channel c;
    uint64_t datagram[DATAGRAM / 8 + 1];
    for (int udp = udp_socket(t); udp >= 0 && !stop;)
        if (recv(udp, datagram, sizeof datagram, 0) > 0) record(t, datagram);
    while (channel_open(&c, t->path)) {
        if (stop) return NULL;
        usleep(10000);
    }
    size_t cap = c.h->data_size, len;
    uint64_t *frame = malloc(cap);
    while (!stop) {
        enum status s = channel_get(&c, frame, cap, &len, WAIT, POLL_NS);
        if (s == TIMEOUT || s == STALE) continue;
        if (s != OK && s != MISSED) return fail(t, "get", s);
        record(t, frame);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int writes = argc > 4 && !strcmp(argv[1], "write") && argc % 3 == 2, step = writes ? 3 : 1;
    if (!writes && (argc < 3 || strcmp(argv[1], "read"))) return fprintf(stderr, "usage: see ends.c\n"), 2;
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    int n = (argc - 2) / step;
    pthread_t threads[n];
    struct task tasks[n];
    static char buffer[1 << 20];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    for (int i = 0; i < n; i++) {
        char **a = argv + 2 + i * step;
        tasks[i] = (struct task){(uint64_t)i, a[0], writes ? atof(a[1]) : 0, writes ? strtoul(a[2], NULL, 10) : 0, (double)i / n};
        pthread_create(&threads[i], NULL, writes ? write_frames : read_frames, &tasks[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    return fflush(stdout) != 0;
}
