// The sizes of frames, from the index alone.
#include "ring.h"

#define MOST_ENTRIES 256 // of a large ring the newest tell enough, and only their pages are touched

struct largest {
	const struct ach_map *m;
	uint64_t bytes;
};

static int largest(void *arg) {
	struct largest *a = arg;
	struct view v = view_of(a->m);
	int status = ring_check(&v);
	if (status)
		return status;
	uint64_t head = ACH_LOAD(v.h->index_head), most = v.cnt < MOST_ENTRIES ? v.cnt : MOST_ENTRIES;
	if (head >= v.cnt)
		return ACH_WRONG(ACH_CORRUPT, ACH_WHY_INDEX_HEAD);
	for (uint64_t back = 1; back <= most; back++) {
		uint64_t size = ACH_LOAD(v.index[(head + v.cnt - back) % v.cnt].size);
		if (size <= v.size && size > a->bytes)
			a->bytes = size;
	}
	return ACH_OK;
}

int ach_largest(const struct ach_map *m, uint64_t *bytes) {
	struct largest a = {.m = m};
	int status = ach_guarded(largest, &a);
	*bytes = a.bytes;
	return status;
}
