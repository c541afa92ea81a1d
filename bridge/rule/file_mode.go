package rule

import (
	"fmt"
	"strconv"
	"strings"
)

// FileMode holds the permission bits of a mirror's file; 0 means that the umask determines them, as in libach.
type FileMode uint16

// String returns the bits in octal.
func (m FileMode) String() string {
	if m == 0 {
		return "umask"
	}
	return fmt.Sprintf("%04o", uint16(m))
}

// ParseFileMode parses permission bits in octal, as in 0660 or 660. Readers need write permission, because they take the lock in the file.
func ParseFileMode(s string) (FileMode, error) {
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 16)
	if err != nil || v == 0 || v > 0o666 || v&0o111 != 0 {
		return 0, fmt.Errorf("%q: want permission bits in octal, as in 0660", s)
	}
	if v&0o600 != 0o600 {
		return 0, fmt.Errorf("%q: the owner, achbridge, has to read and write it, as in 0660", s)
	}
	for _, who := range []uint64{0o060, 0o006} {
		if some := v & who; some != 0 && some != who {
			return 0, fmt.Errorf("%q: readers need write permission too (the lock is in the file), as in 0660 or 0666", s)
		}
	}
	return FileMode(v), nil
}
