// robot: puts its joints 100 times a second, and reads the plan that the planner pushes to it.
//
// A program of your own uses libach: ach_open, ach_put, ach_get. This one uses the channel implementation of achbridge's
// tests, which has the same layout in memory, so that the example needs no other library.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "channel.h"

static volatile sig_atomic_t stop;
static void on_term(int sig) { stop = sig; }

int main(void) {
    signal(SIGTERM, on_term);
    channel_create("/dev/shm/achshm-joints", 16, 64, 0); // fails if a run before has made it
    struct channel joints, plan;
    if (channel_open(&joints, "/dev/shm/achshm-joints")) return fprintf(stderr, "robot: cannot open joints\n"), 1;

    unsigned char frame[64] = {0};
    uint64_t count = 0, plans = 0;
    int has_plan = 0;
    while (!stop) {
        count++;
        memcpy(frame, &count, sizeof count);
        if (channel_put(&joints, frame, sizeof frame)) return fprintf(stderr, "robot: cannot put joints\n"), 1;
        size_t size;
        has_plan = has_plan || channel_open(&plan, "/dev/shm/achshm-plan") == OK; // the daemon makes it with the first push
        if (has_plan) {
            enum status s = channel_get(&plan, frame, sizeof frame, &size, LAST, 0);
            plans += s == OK || s == MISSED;
        }
        if (count % 100 == 0) printf("robot: %lu joints, %lu plans\n", (unsigned long)count, (unsigned long)plans), fflush(stdout);
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return 0;
}
