// origins: print from which host each frame in the output of a merge is.
//
//     cc -o origins origins.c
//     achbridge channel cat all.event.meta | ./origins
//     frame 17: frame 5 of robot1
//
// A logger keeps all.event and all.event.meta open with libach. After it got frame seq_num of
// all.event, it reads all.event.meta until a frame has that mirror_seq. Each frame has one, soon
// after it was put; later ones with the same number only show another state of the link.
#include <stdio.h>

#include "achbridge_meta.h"

int main(void) {
    unsigned char frame[ACHBRIDGE_MERGE_META_SIZE];
    struct achbridge_meta m;
    while (fread(frame, sizeof frame, 1, stdin) == 1) {
        if (achbridge_meta_parse(&m, frame, sizeof frame)) return fprintf(stderr, "origins: not the metadata of a merge\n"), 1;
        if (m.mirror_seq == 0) continue; // the host has no frame in the channel yet
        printf("frame %llu: frame %llu of %s\n", (unsigned long long)m.mirror_seq, (unsigned long long)m.seq, m.origin);
    }
    return 0;
}
