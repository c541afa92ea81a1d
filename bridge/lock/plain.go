//go:build !lockorder

package lock

import "sync"

// Mutex is a mutex with a place in the order of locks. Its zero value is ready.
type Mutex[R rank] struct{ sync.Mutex }
