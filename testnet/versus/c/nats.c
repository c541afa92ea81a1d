// NATS by its C client: what is published is flushed at once.
#include "carry.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct end {
    natsSubscription *sub;
    const char *subject;
};

static natsConnection *connection;

struct end *end_open(const char *robot, const char *channel, int number, int sends) {
    char url[64];
    natsOptions *o;
    snprintf(url, sizeof url, "nats://%s:4222", robot);
    if (!connection && (natsOptions_Create(&o) || natsOptions_SetURL(o, url) || natsOptions_SetSendAsap(o, true) || natsConnection_Connect(&connection, o))) {
        connection = NULL;
        return NULL;
    }
    struct end *e = calloc(1, sizeof *e);
    e->subject = channel;
    if (!sends && natsConnection_SubscribeSync(&e->sub, connection, channel)) return NULL;
    return e;
}

void end_send(struct end *e, const void *frame, size_t len) { natsConnection_Publish(connection, e->subject, frame, (int)len); }

size_t end_receive(struct end *e, void *frame, size_t cap) {
    natsMsg *m;
    if (natsSubscription_NextMsg(&m, e->sub, 1000)) return 0;
    size_t len = (size_t)natsMsg_GetDataLength(m);
    if (len <= cap) memcpy(frame, natsMsg_GetData(m), len);
    natsMsg_Destroy(m);
    return len <= cap ? len : 0;
}
