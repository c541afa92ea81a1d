// fresh MIRROR LIMIT_MS: is the newest frame of a mirror young enough to act on?
//
// The mirror needs the option meta: achbridge mirror krang/imu --meta
//
//     cc -o fresh fresh.c -lach
//     ./fresh krang.imu 50 && echo go on
//
// It also tells how many of the origin's latest frames the bridge has left out: in the
// mirror they are not missed, since it has numbers of its own.
// Exits with 0 when it is, 4 when it is too old or nobody knows, 1 when there is no
// such channel. A control loop would keep the two channels open and ask each time.
#include <ach.h>
#include <stdio.h>
#include <stdlib.h>

#include "achbridge_meta.h"

static const char *const links[] = {"down", "up", "silent", "refused"};

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: fresh MIRROR LIMIT_MS\n"), 2;
    char name[64];
    snprintf(name, sizeof name, "%s.meta", argv[1]);
    ach_channel_t chan;
    enum ach_status s = ach_open(&chan, name, NULL);
    if (s != ACH_OK) return fprintf(stderr, "%s: %s\n", name, ach_result_to_string(s)), 1;

    unsigned char frame[ACHBRIDGE_META_SIZE];
    size_t size = 0;
    struct achbridge_meta m, oldest = {0};
    s = ach_get(&chan, frame, sizeof frame, &size, NULL, 0); // the oldest that the ring still has
    if (s == ACH_OK || s == ACH_MISSED_FRAME) achbridge_meta_parse(&oldest, frame, size);
    s = ach_get(&chan, frame, sizeof frame, &size, NULL, ACH_O_LAST | ACH_O_COPY);
    if ((s != ACH_OK && s != ACH_MISSED_FRAME) || achbridge_meta_parse(&m, frame, size))
        return fprintf(stderr, "%s: no frame that tells of a mirror\n", name), 1;

    int64_t age = achbridge_meta_age_ns(&m);
    int fresh = age >= 0 && age <= (int64_t)(atof(argv[2]) * 1e6) && !m.stale;
    printf("%s: frame %llu, ", argv[1], (unsigned long long)m.seq);
    if (age < 0) printf("of unknown age");
    else printf("%.3f ms old at most", (double)age / 1e6);
    printf(", link %s: %s", m.link < 4 ? links[m.link] : "?", fresh ? "fresh" : "old");
    int64_t left = achbridge_meta_left_out(&oldest, &m);
    if (left >= 0) printf("; %lld of the last %llu frames left out", (long long)left, (unsigned long long)(m.seq - oldest.seq));
    printf("\n");
    return fresh ? 0 : 4;
}
