//go:build lockorder

package phases

import "fmt"

// refused panics, so that the tests find the transition.
func refused(from, to any) {
	panic(fmt.Sprintf("%T: no transition from %v to %v is listed", from, from, to))
}
