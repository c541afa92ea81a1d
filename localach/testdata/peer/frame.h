// Frames that can be judged by themselves: five words, then a pattern made of them. selfcheck_test.go speaks the same.
#ifndef PEER_FRAME_H
#define PEER_FRAME_H

#include <stdint.h>
#include <string.h>
#include <time.h>

struct stamp {
    uint64_t writer, count, time_ns, size, check;
};

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t stamp_check(const struct stamp *s) {
    return (s->writer * 0x9E3779B97F4A7C15ull) ^ (s->count * 0xC2B2AE3D27D4EB4Full) ^ (s->time_ns * 0x165667B19E3779F9ull) ^ s->size;
}

static inline unsigned char pattern(const struct stamp *s, size_t i) { return (unsigned char)(s->check >> (i % 8 * 8)) ^ (unsigned char)(i / 8); }

static inline void frame_make(unsigned char *buf, size_t size, uint64_t writer, uint64_t count) {
    if (size < sizeof(struct stamp)) return;
    struct stamp s = {writer, count, now_ns(), size, 0};
    s.check = stamp_check(&s);
    memcpy(buf, &s, sizeof s);
    for (size_t i = sizeof s; i < size; i++) buf[i] = pattern(&s, i);
}

// frame_ok says whether all bytes are those of one frame.
static inline int frame_ok(const unsigned char *buf, size_t size, struct stamp *s) {
    if (size < sizeof *s) return 0;
    memcpy(s, buf, sizeof *s);
    if (s->size != size || s->check != stamp_check(s)) return 0;
    for (size_t i = sizeof *s; i < size; i++)
        if (buf[i] != pattern(s, i)) return 0;
    return 1;
}

#endif
