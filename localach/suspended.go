package localach

/*
#include <stdint.h>
int64_t ach_suspended(void);
*/
import "C"
import "time"

// Suspended returns how long this host has been suspended since its boot: CLOCK_BOOTTIME minus CLOCK_MONOTONIC, which stops
// during a suspension. The result may be a few microseconds too small, but never too large. Suspended makes no system call and
// does not allocate. It is safe for concurrent use.
func Suspended() time.Duration { return time.Duration(C.ach_suspended()) }
