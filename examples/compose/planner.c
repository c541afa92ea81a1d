// planner: reads the mirror robot.joints, and puts a plan for each of its frames.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "channel.h"

static volatile sig_atomic_t stop;
static void on_term(int sig) { stop = sig; }

int main(void) {
    signal(SIGTERM, on_term);
    channel_create("/dev/shm/achshm-plan", 16, 64, 0); // fails if a run before has made it
    struct channel joints, plan;
    if (channel_open(&plan, "/dev/shm/achshm-plan")) return fprintf(stderr, "planner: cannot open plan\n"), 1;
    while (!stop && channel_open(&joints, "/dev/shm/achshm-robot.joints")) // the daemon makes it when it has found the robot
        nanosleep(&(struct timespec){0, 50000000}, NULL);

    unsigned char frame[64];
    while (!stop) {
        size_t size;
        enum status s = channel_get(&joints, frame, sizeof frame, &size, WAIT | LAST, 100000000);
        if (s == TIMEOUT) continue;
        if (s != OK && s != MISSED) return fprintf(stderr, "planner: cannot read robot.joints: status %d\n", s), 1;
        if (channel_put(&plan, frame, size)) return fprintf(stderr, "planner: cannot put plan\n"), 1;
    }
    return 0;
}
