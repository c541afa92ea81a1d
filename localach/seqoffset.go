package localach

/*
#include "ach.h"

enum { LAST_SEQ_OFFSET = offsetof(struct ach_header, last_seq) };
*/
import "C"

// lastSeqOffset is the offset of last_seq in a file, which depends on the architecture.
const lastSeqOffset = C.LAST_SEQ_OFFSET
