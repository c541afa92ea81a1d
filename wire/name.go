package wire

import "fmt"

// MaxName is the longest name of a channel or host, in bytes.
const MaxName = 63

// checkName accepts only names that libach allows, so that no name from a peer can lead out of
// the directory of the channels.
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
