//go:build !lockorder

package bridge

import "sync"

// lock is a mutex with a place in the order of locks. Its zero value is ready.
type lock[R rank] struct{ sync.Mutex }
