package localach

/*
#include <stdint.h>
int64_t ach_suspended(void);
*/
import "C"
import "time"

// Suspended is for how long this host has been suspended since it was started: CLOCK_BOOTTIME less CLOCK_MONOTONIC, which stands
// still meanwhile. It may be some microseconds too little, never too much. No system call, no allocation. Any goroutine may ask.
func Suspended() time.Duration { return time.Duration(C.ach_suspended()) }
