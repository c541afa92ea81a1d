// fresh LIMIT_MS: is the newest frame of a mirror young enough to act on?
//
// The mirror needs the option meta: achbridge mirror krang/imu --meta
//
//     cc -o fresh fresh.c
//     achbridge channel cat krang.imu.meta | ./fresh 50 && echo go on
//
// It also tells how many of the origin's latest frames the bridge has left out: in the
// mirror they are not missed, since it has numbers of its own.
// Exits with 0 when it is, 4 when it is too old or nobody knows, 1 when no frame tells.
//
// A control loop keeps krang.imu.meta open with libach, and asks each time:
//
//     ach_get(&chan, frame, sizeof frame, &size, NULL, ACH_O_LAST | ACH_O_COPY);
#include <stdio.h>
#include <stdlib.h>

#include "achbridge_meta.h"

static const char *const links[] = {"down", "up", "silent", "refused"};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: achbridge channel cat MIRROR.meta | fresh LIMIT_MS\n"), 2;

    unsigned char frame[ACHBRIDGE_META_SIZE];
    struct achbridge_meta m = {0}, oldest = {0};
    int frames = 0;
    while (fread(frame, sizeof frame, 1, stdin) == 1) {
        if (achbridge_meta_parse(&m, frame, sizeof frame)) return fprintf(stderr, "fresh: a frame that does not describe a mirror\n"), 1;
        if (frames++ == 0) oldest = m; // the oldest that the ring still has
    }
    if (frames == 0) return fprintf(stderr, "fresh: no frame\n"), 1;

    int64_t age = achbridge_meta_age_ns(&m);
    int fresh = age >= 0 && age <= (int64_t)(atof(argv[1]) * 1e6) && !m.stale;
    printf("frame %llu, ", (unsigned long long)m.seq);
    if (age < 0) printf("of unknown age");
    else printf("%.3f ms old at most", (double)age / 1e6);
    printf(", link %s: %s", m.link < 4 ? links[m.link] : "?", fresh ? "fresh" : "old");
    int64_t left = achbridge_meta_left_out(&oldest, &m);
    if (left >= 0) printf("; %lld of the last %llu frames left out", (long long)left, (unsigned long long)(m.seq - oldest.seq));
    printf("\n");
    return fresh ? 0 : 4;
}
