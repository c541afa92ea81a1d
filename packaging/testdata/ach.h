// As much of libach's ach.h as fresh.c uses, on the second implementation of channels
// that the tests have (localach/testdata/peer), since libach is no package here.
#ifndef TEST_ACH_H
#define TEST_ACH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "channel.h"

#define ach_status status
#define ACH_OK OK
#define ACH_MISSED_FRAME MISSED
#define ACH_O_LAST LAST
#define ACH_O_COPY COPY

typedef struct channel ach_channel_t;

static inline enum ach_status ach_open(ach_channel_t *chan, const char *name, void *attr) {
    char path[4096];
    (void)attr;
    snprintf(path, sizeof path, "%s/achshm-%s", getenv("ACHBRIDGE_SHM"), name);
    return channel_open(chan, path);
}

static inline enum ach_status ach_get(ach_channel_t *chan, void *buf, size_t size, size_t *frame_size, const struct timespec *abstime, int options) {
    (void)abstime;
    return channel_get(chan, buf, size, frame_size, options, 0);
}

static inline const char *ach_result_to_string(enum ach_status s) { return s == FAILED ? "no such channel" : "not usable"; }

#endif
