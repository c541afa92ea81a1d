//go:build !lockorder

package lock

import "sync"

// Mutex is a mutex with a rank in the locking order. The zero value is unlocked.
type Mutex[R rank] struct{ sync.Mutex }
