// ZeroMQ: PUB and SUB over TCP with ZMQ_CONFLATE on both, so that each keeps the newest frame only.
#include "carry.h"

#include <stdio.h>
#include <zmq.h>

struct end *end_open(const char *robot, const char *channel, int number, int sends) {
    static void *context;
    char address[64];
    if (!context) context = zmq_ctx_new();
    void *socket = zmq_socket(context, sends ? ZMQ_PUB : ZMQ_SUB);
    zmq_setsockopt(socket, ZMQ_CONFLATE, &(int){1}, sizeof(int));
    if (!sends) zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    snprintf(address, sizeof address, "tcp://%s:%d", sends ? "*" : robot, 5600 + number);
    if (sends ? zmq_bind(socket, address) : zmq_connect(socket, address)) perror(channel);
    return socket;
}

void end_send(struct end *e, const void *frame, size_t len) { zmq_send(e, frame, len, 0); }

size_t end_receive(struct end *e, void *frame, size_t cap) {
    int n = zmq_recv(e, frame, cap, 0);
    return n > 0 && (size_t)n <= cap ? (size_t)n : 0;
}
