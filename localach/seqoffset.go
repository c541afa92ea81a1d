package localach

/*
#include "ach.h"

enum { LAST_SEQ_OFFSET = offsetof(struct ach_header, last_seq) };
*/
import "C"

// lastSeqOffset is where last_seq lies in a file: as the C compiler lays it out on this machine.
const lastSeqOffset = C.LAST_SEQ_OFFSET
