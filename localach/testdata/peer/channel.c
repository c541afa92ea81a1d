#define _GNU_SOURCE
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0xb07511f3u
#define GUARD_HEADER 0x1A2A3A4A5A6A7A8Aull
#define GUARD_INDEX 0x1B2B3B4B5B6B7B8Bull
#define GUARD_DATA 0x1C2C3C4C5C6C7C8Cull
#define ENTRIES_AT (sizeof(struct header) + 8)

static struct entry *entry_at(struct header *h, size_t i) { return (struct entry *)((char *)h + ENTRIES_AT) + i; }
static char *index_guard(struct header *h) { return (char *)entry_at(h, h->index_cnt); }
static char *data(struct header *h) { return index_guard(h) + 8; }
static char *data_guard(struct header *h) { return data(h) + h->data_size; }

static int guards_ok(struct header *h) {
    static const uint64_t hg = GUARD_HEADER, ig = GUARD_INDEX, dg = GUARD_DATA;
    return h->magic == MAGIC && !memcmp(h + 1, &hg, 8) && !memcmp(index_guard(h), &ig, 8) && !memcmp(data_guard(h), &dg, 8);
}

static void sync_init(struct header *h, enum version version) {
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&h->sync.cond, &ca);
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    if (version != ACH_1_0) {
        pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
        pthread_mutexattr_setprotocol(&ma, PTHREAD_PRIO_INHERIT);
    }
    pthread_mutex_init(&h->sync.mutex, &ma);
}

enum status channel_create(const char *path, size_t cnt, size_t size, int in_place) { return channel_create_as(path, cnt, size, in_place, ACH_2); }

enum status channel_create_as(const char *path, size_t cnt, size_t size, int in_place, enum version version) {
    size_t len = sizeof(struct header) + cnt * (sizeof(struct entry) + size) + 3 * 8;
    int fd = open(path, O_RDWR | O_CREAT | (in_place ? 0 : O_EXCL), 0666);
    if (fd < 0 || ftruncate(fd, (off_t)len)) return FAILED;
    struct header *h = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (h == MAP_FAILED) return FAILED;
    memset(h, 0, len);
    h->len = len;
    h->clock = version == ACH_2 ? CLOCK_MONOTONIC : 0;
    sync_init(h, version);
    h->index_cnt = h->index_free = cnt;
    h->data_size = h->data_free = cnt * size;
    memcpy(h + 1, &(uint64_t){GUARD_HEADER}, 8);
    memcpy(index_guard(h), &(uint64_t){GUARD_INDEX}, 8);
    memcpy(data_guard(h), &(uint64_t){GUARD_DATA}, 8);
    atomic_thread_fence(memory_order_release);
    h->magic = MAGIC;
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!strncmp(base, "achshm-", 7)) base += 7;
    strncpy(h->name, base, 64);
    munmap(h, len);
    return OK;
}

enum status channel_open(struct channel *c, const char *path) {
    int fd = open(path, O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) return FAILED;
    if ((size_t)st.st_size < ENTRIES_AT) return close(fd), BAD_FILE;
    c->h = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->h == MAP_FAILED) return FAILED;
    c->seq_num = 0;
    c->next_index = 1;
    c->version = ACH_2;
    if (c->h->magic != MAGIC) return BAD_FILE;
    return guards_ok(c->h) ? OK : CORRUPT;
}

enum status channel_lock(struct channel *c) {
    int r = pthread_mutex_lock(&c->h->sync.mutex);
    if (r == EOWNERDEAD) r = pthread_mutex_consistent(&c->h->sync.mutex);
    if (r) return r == ENOTRECOVERABLE ? CORRUPT : FAILED;
    if (c->h->sync.dirty) return pthread_mutex_unlock(&c->h->sync.mutex), CORRUPT;
    return OK;
}

static size_t oldest(struct header *h) { return (h->index_head + h->index_free) % h->index_cnt; }

static void free_entry(struct header *h, size_t i) {
    struct entry *e = entry_at(h, i);
    h->data_free += e->size;
    h->index_free++;
    memset(e, 0, sizeof *e);
}

// make_room is steps 2 to 4 of put. It compares offsets with `>`, libach's own way; frames within frame_size never meet the difference.
static void make_room(struct header *h, size_t len, enum version version) {
    if (h->index_free == 0) free_entry(h, h->index_head);
    if (version == ACH_2 && h->data_size - h->data_head < len) {
        size_t i = oldest(h);
        while (h->index_free < h->index_cnt && entry_at(h, i)->offset > h->data_head) {
            free_entry(h, i);
            i = (i + 1) % h->index_cnt;
        }
        h->data_free = i == h->index_head ? h->data_size : entry_at(h, i)->offset;
        h->data_head = 0;
    }
    while (h->data_free < len) {
        size_t i = oldest(h);
        free_entry(h, i);
        if ((i + 1) % h->index_cnt == h->index_head) h->data_free = h->data_size;
    }
}

enum status channel_put(struct channel *c, const void *buf, size_t len) {
    struct header *h = c->h;
    if (len == 0) return EINVALID;
    if (!guards_ok(h)) return CORRUPT;
    if (len > h->data_size) return OVERFLOW;
    enum status s = channel_lock(c);
    if (s) return s;
    h->sync.dirty = 1;
    atomic_signal_fence(memory_order_seq_cst);
    make_room(h, len, c->version);
    size_t first = h->data_size - h->data_head < len ? h->data_size - h->data_head : len; // less than len only with Ach 1.x
    memcpy(data(h) + h->data_head, buf, first);
    memcpy(data(h), (const char *)buf + first, len - first);
    h->last_seq++;
    *entry_at(h, h->index_head) = (struct entry){len, h->data_head, h->last_seq};
    h->data_head = (h->data_head + len) % h->data_size;
    h->data_free -= len;
    h->index_head = (h->index_head + 1) % h->index_cnt;
    h->index_free--;
    atomic_signal_fence(memory_order_seq_cst);
    h->sync.dirty = 0;
    pthread_mutex_unlock(&h->sync.mutex);
    pthread_cond_broadcast(&h->sync.cond);
    return OK;
}

static enum status wait_for_frame(struct channel *c, int64_t timeout_ns) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + timeout_ns;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    while (c->seq_num == c->h->last_seq) {
        pthread_mutex_t *m = &c->h->sync.mutex;
        int r = timeout_ns ? pthread_cond_timedwait(&c->h->sync.cond, m, &t) : pthread_cond_wait(&c->h->sync.cond, m);
        if (r == ETIMEDOUT) return TIMEOUT;
        if (r == EOWNERDEAD) r = pthread_mutex_consistent(m);
        if (r) return FAILED;
        if (c->h->sync.dirty) return CORRUPT;
    }
    return OK;
}

static size_t choose(struct channel *c, int options) {
    struct header *h = c->h;
    size_t newest = (h->index_head + h->index_cnt - 1) % h->index_cnt, next = c->next_index % h->index_cnt;
    if (options & LAST) return newest;
    if (entry_at(h, next)->seq_num == c->seq_num + 1) return next;
    return c->seq_num == h->last_seq ? newest : oldest(h);
}

static enum status get_locked(struct channel *c, void *buf, size_t cap, size_t *len, int options) {
    struct header *h = c->h;
    if (h->last_seq == 0 || (c->seq_num == h->last_seq && !(options & COPY))) return STALE;
    size_t i = choose(c, options);
    struct entry *e = entry_at(h, i);
    if (e->offset >= h->data_size) return BUG;
    if (e->offset + e->size > h->data_size) return CORRUPT;
    *len = e->size;
    if (e->size > cap) return OVERFLOW;
    if (c->seq_num > e->seq_num) return BUG;
    enum status s = e->seq_num > c->seq_num + 1 ? MISSED : OK;
    memcpy(buf, data(h) + e->offset, e->size);
    c->seq_num = e->seq_num;
    c->next_index = (i + 1) % h->index_cnt;
    return s;
}

enum status channel_get(struct channel *c, void *buf, size_t cap, size_t *len, int options, int64_t timeout_ns) {
    if (!guards_ok(c->h)) return CORRUPT;
    enum status s = channel_lock(c);
    if (s) return s;
    if (options & WAIT) s = wait_for_frame(c, timeout_ns);
    if (!s) s = get_locked(c, buf, cap, len, options);
    pthread_mutex_unlock(&c->h->sync.mutex);
    return s;
}
