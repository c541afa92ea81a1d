// achd VERB ARGS...: what achd 2.0 does on the network, as far as a comparison needs it.
//
//   achd serve PORT                            a process for each connection, each with one channel
//   achd pull HOST PORT CHANNEL PATH WAY LAST  feed the channel file PATH; WAY is tcp or udp, LAST is 0 (every frame) or 1 (the newest)
//
// Over TCP a frame is "achpipe\0", its size as uint64, and its bytes; over UDP it is one datagram, its bytes alone.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "channel.h"

#define LINE 1024
#define DATAGRAM 65507

struct head {
    char magic[8];
    uint64_t size;
};

struct request {
    char channel[80], udp[8], last[8], port[8];
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void option(int fd, int level, int name) { setsockopt(fd, level, name, &(int){1}, sizeof(int)); }

// field reads one "key: value" line into line; value points into it. 0 at the line "." or at the end.
static int field(FILE *f, char *line, char **value) {
    if (!fgets(line, LINE, f) || !strcmp(line, ".\n")) return 0;
    line[strcspn(line, "\n")] = 0;
    *value = strstr(line, ": ");
    if (!*value) return fprintf(stderr, "achd: bad header: %s\n", line), exit(1), 0;
    **value = 0;
    *value += 2;
    return 1;
}

static void keep(char *to, size_t cap, const char *value) { snprintf(to, cap, "%s", value); }

static void path_of(char *to, size_t cap, const char *channel) { snprintf(to, cap, "/dev/shm/achshm-%s", channel); }

static void open_channel(struct channel *c, const char *path) {
    enum status s = channel_open(c, path);
    if (s) exit((fprintf(stderr, "achd: %s: status %d\n", path, s), 1));
}

// flush_channel lets a late joiner see nothing until the next put.
static void flush_channel(struct channel *c) {
    if (channel_lock(c)) exit(1);
    c->seq_num = c->h->last_seq;
    c->next_index = c->h->index_head;
    pthread_mutex_unlock(&c->h->sync.mutex);
}

static void feed(int tcp, int udp, struct channel *c, int last) {
    size_t cap = c->h->data_size, len;
    char *frame = malloc(cap);
    flush_channel(c);
    for (;;) {
        enum status s = channel_get(c, frame, cap, &len, WAIT | (last ? LAST : 0), 0);
        if (s != OK && s != MISSED) exit((fprintf(stderr, "achd: get: status %d\n", s), 1));
        if (udp >= 0) {
            if (len <= DATAGRAM) send(udp, frame, len, 0);
            continue;
        }
        struct head h = {"achpipe", len};
        struct iovec parts[] = {{&h, sizeof h}, {frame, len}};
        ssize_t done = writev(tcp, parts, 2);
        for (size_t sent = (size_t)done; done > 0 && sent < sizeof h + len; sent += (size_t)done) {
            if (sent < sizeof h) die("a head in two pieces");
            done = write(tcp, frame + sent - sizeof h, len - (sent - sizeof h));
        }
        if (done <= 0) exit(0);
    }
}

static void serve_one(int tcp, struct sockaddr_in peer) {
    FILE *in = fdopen(dup(tcp), "r");
    char line[LINE], *value, path[128];
    struct request r = {0};
    while (field(in, line, &value)) {
        if (!strcmp(line, "channel-name")) keep(r.channel, sizeof r.channel, value);
        if (!strcmp(line, "transport")) keep(r.udp, sizeof r.udp, value);
        if (!strcmp(line, "get-last")) keep(r.last, sizeof r.last, value);
        if (!strcmp(line, "remote-port")) keep(r.port, sizeof r.port, value);
    }
    struct channel c;
    path_of(path, sizeof path, r.channel);
    open_channel(&c, path);
    int udp = -1;
    if (!strcmp(r.udp, "udp")) {
        udp = socket(AF_INET, SOCK_DGRAM, 0);
        peer.sin_port = htons((uint16_t)atoi(r.port));
        struct sockaddr_in me;
        socklen_t n = sizeof me;
        if (connect(udp, (struct sockaddr *)&peer, sizeof peer) || getsockname(udp, (struct sockaddr *)&me, &n)) die("udp");
        dprintf(tcp, "remote-port: %d\n", ntohs(me.sin_port));
    }
    dprintf(tcp, "frame-count: %zu\nframe-size: %zu\nstatus: 0 # ACH_OK\n.\n", c.h->index_cnt, c.h->data_size / c.h->index_cnt);
    feed(tcp, udp, &c, r.last[0] == '1');
}

static int serve(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    option(fd, SOL_SOCKET, SO_REUSEADDR);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, peer;
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 64)) die("listen");
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        socklen_t n = sizeof peer;
        int tcp = accept(fd, (struct sockaddr *)&peer, &n);
        if (tcp < 0) die("accept");
        option(tcp, IPPROTO_TCP, TCP_NODELAY);
        if (fork() == 0) close(fd), serve_one(tcp, peer), exit(0);
        close(tcp);
    }
}

static void put(struct channel *c, const char *frame, size_t len) {
    enum status s = channel_put(c, frame, len);
    if (s) exit((fprintf(stderr, "achd: put: status %d\n", s), 1));
}

static int pull(char **a) {
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = -1, last = atoi(a[5]);
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(a[1]))}, me = {.sin_family = AF_INET};
    socklen_t n = sizeof me;
    if (inet_pton(AF_INET, a[0], &host.sin_addr) != 1 || connect(tcp, (struct sockaddr *)&host, sizeof host)) die(a[0]);
    option(tcp, IPPROTO_TCP, TCP_NODELAY);
    FILE *in = fdopen(dup(tcp), "r");
    if (!strcmp(a[4], "udp")) {
        udp = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(udp, (struct sockaddr *)&me, sizeof me) || getsockname(udp, (struct sockaddr *)&me, &n)) die("udp");
        dprintf(tcp, "remote-port: %d\n", ntohs(me.sin_port));
    }
    dprintf(tcp, "channel-name: %s\ntransport: %s\nget-last: %d\ndirection: push\n.\n", a[2], a[4], last);
    char line[LINE], *value;
    size_t count = 16, size = 512;
    while (field(in, line, &value)) {
        if (!strcmp(line, "frame-count")) count = strtoul(value, NULL, 10);
        if (!strcmp(line, "frame-size")) size = strtoul(value, NULL, 10);
        if (!strcmp(line, "status") && atoi(value)) return fprintf(stderr, "achd: status %s\n", value), 1;
    }
    struct channel c;
    channel_create(a[3], count, size, 0);
    open_channel(&c, a[3]);
    size_t cap = count * size;
    char *frame = malloc(cap);
    for (struct head h; udp < 0;) {
        if (fread(&h, sizeof h, 1, in) != 1 || memcmp(h.magic, "achpipe", 8) || h.size > cap || fread(frame, h.size, 1, in) != 1) return 1;
        put(&c, frame, h.size);
    }
    for (ssize_t len; (len = recv(udp, frame, size, 0)) > 0;) put(&c, frame, (size_t)len);
    return 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "serve")) return serve(atoi(argv[2]));
    if (argc == 8 && !strcmp(argv[1], "pull")) return pull(argv + 2);
    return fprintf(stderr, "usage: see achd.c\n"), 2;
}
