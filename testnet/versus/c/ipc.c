// ipc MEANS HZ SENDERS RECEIVERS MS: how long a time stamp takes from one process to another on this host, as Ach's own
// benchmark measures it. Processes are forked; each sender sends a stamp HZ times a second for so long. Standard output gets the
// delay of each message at each receiver, in ns, as uint64. All means but ach have one sender and one receiver.
#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int ok, const char *what) {
    if (ok) return;
    perror(what);
    exit(1);
}

static int in, out;     // of all means that are files
static char name[64];   // of the channel or queue
static struct channel channel;
static mqd_t queue;

static void open_ach(void) {
    check(!channel_create(name, 10, sizeof(uint64_t), 0) && !channel_open(&channel, name), name);
    unlink(name); // all have it by the fork; each then has a copy of its own place in it
}
static void put_ach(uint64_t stamp) { check(!channel_put(&channel, &stamp, sizeof stamp), "put"); }
static uint64_t get_ach(void) {
    uint64_t stamp = 0;
    size_t len;
    enum status s = channel_get(&channel, &stamp, sizeof stamp, &len, WAIT | LAST, 0);
    return check(s == OK || s == MISSED, "get"), stamp;
}

static void open_pipe(void) {
    int fd[2];
    check(!pipe(fd), "pipe");
    in = fd[0], out = fd[1];
}
static void open_local(void) {
    int fd[2];
    check(!socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), "socketpair");
    in = fd[0], out = fd[1];
}
static void open_ip(int type) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, type, 0);
    out = socket(AF_INET, type, 0);
    check(!bind(listener, (struct sockaddr *)&a, n) && !getsockname(listener, (struct sockaddr *)&a, &n), "bind");
    if (type == SOCK_STREAM) check(!listen(listener, 1), "listen");
    check(!connect(out, (struct sockaddr *)&a, n), "connect");
    in = type == SOCK_STREAM ? accept(listener, NULL, NULL) : listener;
    if (type == SOCK_STREAM) setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}
static void open_udp(void) { open_ip(SOCK_DGRAM); }
static void open_tcp(void) { open_ip(SOCK_STREAM); }
static void put_file(uint64_t stamp) { check(write(out, &stamp, sizeof stamp) == sizeof stamp, "write"); }
static uint64_t get_file(void) {
    uint64_t stamp;
    return check(read(in, &stamp, sizeof stamp) == sizeof stamp, "read"), stamp;
}

static void open_mq(void) {
    struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = sizeof(uint64_t)};
    const char *own = strrchr(name, '/');
    queue = mq_open(own, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
    check(queue != (mqd_t)-1 && !mq_unlink(own), "mq_open");
}
static void put_mq(uint64_t stamp) { check(!mq_send(queue, (char *)&stamp, sizeof stamp, 0), "mq_send"); }
static uint64_t get_mq(void) {
    uint64_t stamp;
    return check(mq_receive(queue, (char *)&stamp, sizeof stamp, NULL) == sizeof stamp, "mq_receive"), stamp;
}

static const struct means {
    const char *name;
    void (*open)(void);
    void (*put)(uint64_t);
    uint64_t (*get)(void);
} all[] = {{"ach", open_ach, put_ach, get_ach},      {"pipe", open_pipe, put_file, get_file}, {"local", open_local, put_file, get_file},
           {"udp", open_udp, put_file, get_file},    {"tcp", open_tcp, put_file, get_file},   {"mq", open_mq, put_mq, get_mq}};

// send_stamps begins at its share of a period, so that senders do not send at the same moment.
static void send_stamps(const struct means *m, uint64_t period, uint64_t begin, uint64_t end) {
    for (uint64_t next = begin; next < end; next += period) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){(time_t)(next / 1000000000), (long)(next % 1000000000)}, NULL);
        m->put(now_ns());
    }
    exit(0);
}

struct log {
    size_t count;
    uint64_t delays[];
};

static void receive_stamps(const struct means *m, struct log *log, size_t most) {
    while (log->count < most) {
        uint64_t stamp = m->get();
        log->delays[log->count] = now_ns() - stamp;
        log->count++;
    }
    exit(0);
}

int main(int argc, char **argv) {
    const struct means *m = all, *none = all + sizeof all / sizeof *all;
    while (argc == 6 && m < none && strcmp(m->name, argv[1])) m++;
    if (argc != 6 || m == none) return fprintf(stderr, "usage: see ipc.c\n"), 2;
    uint64_t period = 1000000000u / strtoul(argv[2], NULL, 10), length = strtoul(argv[5], NULL, 10) * 1000000u;
    int senders = atoi(argv[3]), receivers = atoi(argv[4]);
    prctl(PR_SET_TIMERSLACK, 1);
    snprintf(name, sizeof name, "/dev/shm/achshm-versus-ipc-%d", getpid());
    m->open();

    size_t most = (size_t)senders * (length / period + 1), bytes = sizeof(struct log) + most * sizeof(uint64_t);
    struct log *logs[receivers];
    pid_t readers[receivers];
    for (int i = 0; i < receivers; i++) {
        logs[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        check(logs[i] != MAP_FAILED, "mmap");
        if (!(readers[i] = fork())) receive_stamps(m, logs[i], most);
    }
    uint64_t begin = now_ns() + 20000000;
    pid_t writers[senders];
    for (int i = 0; i < senders; i++)
        if (!(writers[i] = fork())) send_stamps(m, period, begin + period * (uint64_t)i / (uint64_t)senders, begin + length);
    int status, failed = 0;
    for (int i = 0; i < senders; i++) waitpid(writers[i], &status, 0), failed |= status;
    usleep(50000);
    for (int i = 0; i < receivers; i++) {
        kill(readers[i], SIGKILL);
        waitpid(readers[i], &status, 0);
        failed |= !WIFSIGNALED(status) && status;
        fwrite(logs[i]->delays, sizeof(uint64_t), logs[i]->count, stdout);
    }
    return failed != 0 || fflush(stdout);
}
