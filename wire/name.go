package wire

import "fmt"

// MaxName is the largest length of a channel's or host's name, in bytes.
const MaxName = 63

// checkName accepts only names that libach allows, so that a name from a peer cannot be a path out
// of the channel directory.
func checkName(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s: %w", field, errNone)
	case len(s) > MaxName:
		return fmt.Errorf("%s: longer than %d bytes", field, MaxName)
	case s[0] == '.':
		return fmt.Errorf("%s %q: begins with a dot", field, s)
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return fmt.Errorf("%s %q: has a byte other than A-Z, a-z, 0-9, -, _ and dot", field, s)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
