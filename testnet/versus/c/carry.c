// TOOL VERB ROBOT [CHANNEL BYTES]...: carries channels by a tool that knows nothing of Ach; one thread a channel.
//
//   TOOL send ROBOT CHANNEL BYTES...     the newest frame of each channel, as soon as it is put
//   TOOL receive ROBOT CHANNEL BYTES...  into channels of the same name
#include "carry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"

#define FRAMES 16

struct task {
    const char *name;
    size_t size;
    struct end *end;
};

static void *fail(const struct task *t, const char *what, int status) {
    fprintf(stderr, "carry: %s: %s: status %d\n", t->name, what, status);
    exit(1);
}

static void *send_frames(void *arg) {
    struct task *t = arg;
    char path[128];
    struct channel c;
    snprintf(path, sizeof path, "/dev/shm/achshm-%s", t->name);
    enum status s = channel_open(&c, path);
    if (s) return fail(t, "open", s);
    size_t cap = c.h->data_size, len;
    char *frame = malloc(cap);
    for (;;) {
        if ((s = channel_get(&c, frame, cap, &len, WAIT | LAST, 0)) && s != MISSED) return fail(t, "get", s);
        end_send(t->end, frame, len);
    }
}

static void *receive_frames(void *arg) {
    struct task *t = arg;
    char path[128], *frame = malloc(t->size);
    struct channel c = {0};
    snprintf(path, sizeof path, "/dev/shm/achshm-%s", t->name);
    for (;;) {
        size_t len = end_receive(t->end, frame, t->size);
        if (len == 0) continue;
        enum status s = OK;
        if (!c.h && (s = channel_create(path, FRAMES, t->size, 0))) return fail(t, "create", s); // with its first frame
        if (!c.h && (s = channel_open(&c, path))) return fail(t, "open", s);
        if ((s = channel_put(&c, frame, len))) return fail(t, "put", s);
    }
}

int main(int argc, char **argv) {
    int sends = argc > 1 && !strcmp(argv[1], "send"), n = (argc - 3) / 2;
    if (argc < 5 || argc % 2 == 0 || (!sends && strcmp(argv[1], "receive"))) return fprintf(stderr, "usage: see carry.c\n"), 2;
    pthread_t threads[n];
    struct task tasks[n];
    for (int i = 0; i < n; i++) {
        tasks[i] = (struct task){argv[3 + 2 * i], strtoul(argv[4 + 2 * i], NULL, 10), NULL};
        while (!(tasks[i].end = end_open(argv[2], tasks[i].name, i, sends))) usleep(100000);
        pthread_create(&threads[i], NULL, sends ? send_frames : receive_frames, &tasks[i]);
    }
    return pthread_join(threads[0], NULL);
}
