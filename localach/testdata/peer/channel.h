// A second, independent implementation of the Ach channel on plain pthreads, for the tests: it shares no line with the
// package under test, waits on the condition variable as libach does, and blocks without bound as libach does.
#ifndef PEER_CHANNEL_H
#define PEER_CHANNEL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum status { OK = 0, OVERFLOW = 1, BAD_FILE = 3, FAILED = 4, STALE = 5, MISSED = 6, TIMEOUT = 7, BUG = 11, EINVALID = 12, CORRUPT = 13 };
enum option { WAIT = 1, LAST = 2, COPY = 4 };

struct header {
    uint32_t magic;
    size_t len;
    char name[65];
    union {
        struct {
            size_t index_cnt, data_size, data_head, data_free, index_head, index_free;
            clockid_t clock;
            int anon;
        };
        uint64_t reserved[16];
    };
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t cond;
        int dirty;
    } sync;
    uint64_t last_seq;
};

struct entry {
    size_t size, offset;
    uint64_t seq_num;
};

// The version of Ach whose behaviour the program has. 1.0 and 1.1 have a plain mutex; all of 1.x store no clock and split frames.
enum version { ACH_2, ACH_1_2, ACH_1_0 };

// One reader's view of one mapping. put behaves as in version.
struct channel {
    struct header *h;
    enum version version;
    uint64_t seq_num;
    size_t next_index;
};

// In place: without O_EXCL on an existing file, as `ach mk -t` does it, under the feet of whoever has it open.
enum status channel_create(const char *path, size_t cnt, size_t size, int in_place);
// channel_create_as creates a channel as a given version of Ach does.
enum status channel_create_as(const char *path, size_t cnt, size_t size, int in_place, enum version version);
enum status channel_open(struct channel *c, const char *path);
enum status channel_put(struct channel *c, const void *buf, size_t len);
// timeout_ns: for WAIT, relative; 0 waits for ever.
enum status channel_get(struct channel *c, void *buf, size_t cap, size_t *len, int options, int64_t timeout_ns);
// channel_lock takes the mutex as libach does; the two callers that die holding it are in the verbs.
enum status channel_lock(struct channel *c);

#endif
