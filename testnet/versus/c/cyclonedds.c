// DDS by Eclipse Cyclone: best effort, and a history of the newest frame, as ROS 2 has it for sensors.
#include "carry.h"

#include <dds/dds.h>
#include <string.h>

#include "octets.h"

struct end; // the writer's or the reader's handle

struct end *end_open(const char *robot, const char *channel, int number, int sends) {
    static dds_entity_t participant;
    if (!participant) participant = dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL);
    dds_qos_t *q = dds_create_qos();
    dds_qset_reliability(q, DDS_RELIABILITY_BEST_EFFORT, 0);
    dds_qset_history(q, DDS_HISTORY_KEEP_LAST, 1);
    dds_entity_t topic = dds_create_topic(participant, &octets_desc, channel, q, NULL);
    dds_entity_t e = sends ? dds_create_writer(participant, topic, q, NULL) : dds_create_reader(participant, topic, q, NULL);
    dds_delete_qos(q);
    (void)robot, (void)number; // it finds the other host by multicast
    return e > 0 ? (struct end *)(long)e : NULL;
}

void end_send(struct end *e, const void *bytes, size_t len) {
    octets f = {{._maximum = (uint32_t)len, ._length = (uint32_t)len, ._buffer = (uint8_t *)bytes}};
    dds_write((dds_entity_t)(long)e, &f);
}

size_t end_receive(struct end *e, void *bytes, size_t cap) {
    static _Thread_local dds_entity_t set;
    dds_entity_t reader = (dds_entity_t)(long)e;
    if (!set) {
        set = dds_create_waitset(dds_get_participant(reader));
        dds_waitset_attach(set, dds_create_readcondition(reader, DDS_ANY_STATE), 0);
    }
    void *sample = NULL;
    dds_sample_info_t info;
    size_t len = 0;
    if (dds_waitset_wait(set, NULL, 0, DDS_SECS(1)) <= 0 || dds_take(reader, &sample, &info, 1, 1) <= 0) return 0;
    octets *f = sample;
    if (info.valid_data && f->bytes._length <= cap) memcpy(bytes, f->bytes._buffer, len = f->bytes._length);
    dds_return_loan(reader, &sample, 1);
    return len;
}
