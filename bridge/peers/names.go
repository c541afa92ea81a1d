package peers

import (
	"strings"
)

const (
	maxHostName = 63 // bytes
	nameDigits  = 4  // of a node's id after a name, if four make it differ
)

// DistinctName returns name with as many digits of a node's id after it as make it differ from the names in taken. Four
// digits may not do, since ids can be forged.
func DistinctName(name, node string, taken map[string]bool) string {
	digits := nameDigits
	for taken[longName(name, node[:digits])] && digits < len(node) {
		digits += nameDigits
	}
	return longName(name, node[:digits])
}

// longName returns a name with some digits of a node's id after it, shortened to maxHostName.
func longName(name, digits string) string {
	cut := name[:min(len(name), maxHostName-1-len(digits))]
	return strings.ToValidUTF8(cut, "") + "-" + digits
}

// isDistinctName reports whether long is the name short with a part of a node's id after it.
func isDistinctName(long, short string) bool {
	digits, ok := strings.CutPrefix(long, short+"-")
	return ok && len(digits) >= nameDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
