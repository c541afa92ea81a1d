// Reads the frames of NAME.meta, the metadata channel that a mirror with option meta
// has: how old its newest frame is, and what feeds it. In the output of a merge they also
// name the host of each frame. Header only, needs nothing but the C library; the layout is
// that of achbridge's bridge/status/meta.go.
#ifndef ACHBRIDGE_META_H
#define ACHBRIDGE_META_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define ACHBRIDGE_META_SIZE 64
#define ACHBRIDGE_MERGE_META_SIZE 128 // in the output of a merge

enum achbridge_link { ACHBRIDGE_DOWN, ACHBRIDGE_UP, ACHBRIDGE_SILENT, ACHBRIDGE_REFUSED };

struct achbridge_meta {
    uint8_t link;
    int stale;             // no frame came for the mirror's deadline
    int safe;              // the newest frame is the safe frame of on_stale, or of the mux
    uint8_t input;         // of a mux's output: number of the input that wins, from 1; 0: none, or a mirror
    uint64_t epoch, seq;   // of the frame, as its origin counts; seq 0: no frame yet
    uint64_t mirror_seq;   // of the frame in the mirror: seq_num of the ach_channel_t that got it
    int64_t captured_ns;   // of CLOCK_MONOTONIC here, which stands still while the host is suspended; 0: not known
    int64_t put_ns;        // likewise
    int64_t uncertainty_ns;
    int64_t deadline_ns;   // 0: none
    char origin[64];       // host that the frame is from, in the output of a merge; empty in a mirror
};

static inline uint64_t achbridge_word(const unsigned char *b) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | b[i];
    return v;
}

// achbridge_meta_parse returns 0, or -1 for what is no such frame.
static inline int achbridge_meta_parse(struct achbridge_meta *m, const void *frame, size_t size) {
    const unsigned char *b = frame;
    if (size < ACHBRIDGE_META_SIZE || memcmp(b, "AMTA\1", 5) != 0) return -1;
    if (size != (b[6] & 4 ? ACHBRIDGE_MERGE_META_SIZE : ACHBRIDGE_META_SIZE)) return -1;
    m->link = b[5];
    m->stale = b[6] & 1;
    m->safe = b[6] >> 1 & 1;
    m->input = b[7];
    m->epoch = achbridge_word(b + 8);
    m->seq = achbridge_word(b + 16);
    m->mirror_seq = achbridge_word(b + 24);
    m->captured_ns = (int64_t)achbridge_word(b + 32);
    m->put_ns = (int64_t)achbridge_word(b + 40);
    m->uncertainty_ns = (int64_t)achbridge_word(b + 48);
    m->deadline_ns = (int64_t)achbridge_word(b + 56);
    memset(m->origin, 0, sizeof m->origin);
    if (b[6] & 4) memcpy(m->origin, b + 64, sizeof m->origin - 1);
    return 0;
}

// achbridge_meta_age_ns is how old the mirror's newest frame may be at this moment,
// -1 when nobody knows: refuse it then. It grows while nothing arrives.
static inline int64_t achbridge_meta_age_ns(const struct achbridge_meta *m) {
    struct timespec now;
    if (m->captured_ns == 0) return -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - m->captured_ns + m->uncertainty_ns;
}

// achbridge_meta_left_out is how many frames of the origin the mirror did not get between
// two frames of NAME.meta, -1 when nobody knows: the channel, or the mirror's file, was made
// anew in between. The mirror itself does not show it: its frames are numbered without a hole.
static inline int64_t achbridge_meta_left_out(const struct achbridge_meta *before, const struct achbridge_meta *after) {
    if (before->seq == 0 || before->epoch != after->epoch || after->seq < before->seq || after->mirror_seq < before->mirror_seq) return -1;
    int64_t left = (int64_t)(after->seq - before->seq) - (int64_t)(after->mirror_seq - before->mirror_seq);
    return left > 0 ? left : 0; // a safe frame, or somebody else's put, is in the mirror alone
}

#endif
