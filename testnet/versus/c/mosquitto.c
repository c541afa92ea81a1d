// MQTT with QoS 0 by libmosquitto; a connection for each channel, on which nothing but the newest frame waits.
#include "carry.h"

#include <mosquitto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct end {
    struct mosquitto *m;
    const char *channel;
    char *frame;
    size_t cap, len;
};

static void on_message(struct mosquitto *m, void *arg, const struct mosquitto_message *msg) {
    struct end *e = arg;
    if ((size_t)msg->payloadlen > e->cap) return;
    memcpy(e->frame, msg->payload, e->len = (size_t)msg->payloadlen);
}

struct end *end_open(const char *robot, const char *channel, int number, int sends) {
    if (!number) mosquitto_lib_init();
    struct end *e = calloc(1, sizeof *e);
    e->channel = channel;
    e->m = mosquitto_new(NULL, true, e);
    mosquitto_int_option(e->m, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_message_callback_set(e->m, on_message);
    if (mosquitto_connect(e->m, robot, 1883, 60)) return NULL;
    if (!sends) mosquitto_subscribe(e->m, NULL, channel, 0);
    return e;
}

static void again(struct end *e) {
    usleep(100000);
    if (!mosquitto_reconnect(e->m) && e->frame) mosquitto_subscribe(e->m, NULL, e->channel, 0);
}

void end_send(struct end *e, const void *frame, size_t len) {
    if (mosquitto_publish(e->m, NULL, e->channel, (int)len, frame, 0, false) || mosquitto_loop(e->m, 0, 1)) again(e);
}

size_t end_receive(struct end *e, void *frame, size_t cap) {
    e->frame = frame, e->cap = cap, e->len = 0;
    if (mosquitto_loop(e->m, 1000, 1)) again(e);
    return e->len;
}
