// What a tool gives to carry.c: one end of one channel.
#ifndef CARRY_H
#define CARRY_H

#include <stddef.h>

struct end;

// end_open is called for one channel after the other. Robot is the address of the host with the writers, and with the broker if
// there is one; number counts the channels from 0. NULL means that the other side is not there yet: it is called again.
struct end *end_open(const char *robot, const char *channel, int number, int sends);
void end_send(struct end *e, const void *frame, size_t len);
// end_receive waits for a frame and returns its length, or 0 for nothing.
size_t end_receive(struct end *e, void *frame, size_t cap);

#endif
