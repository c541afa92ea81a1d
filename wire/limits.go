package wire

import (
	"errors"
	"fmt"
)

var errNone = errors.New("missing")

func checkID(id uint32) error {
	if id == 0 {
		return fmt.Errorf("id: %w", errNone)
	}
	return nil
}

func checkRange(field string, v, least, most int) error {
	if v < least || v > most {
		return fmt.Errorf("%s: %w", field, errOutside(v, least, most))
	}
	return nil
}

func errOutside[T any](v, least, most T) error {
	return fmt.Errorf("%v is not in %v … %v", v, least, most)
}
