package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxName is the largest length of an Ach name and of a DNS label, in bytes.
const maxName = 63

var errName = errors.New("not 1 to 63 bytes of A-Z a-z 0-9 - _ . that do not begin with a dot")

// HostName converts any host name to one that is valid in Ach names and DNS labels. It replaces other bytes, and a leading
// dot, with '-'. It truncates names of more than 63 bytes and appends four hex digits of their hash, so that long names
// stay distinct. The empty name stays empty. HostName is idempotent.
func HostName(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !isNameByte(c) || i == 0 && c == '.' {
			b[i] = '-'
		}
	}
	if len(b) <= maxName {
		return string(b)
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s-%s", b[:maxName-5], hex.EncodeToString(sum[:2]))
}

// checkName accepts the names that Ach accepts for channels. A mirror's name begins with a host's name, so host names
// follow the same rule.
func checkName(name string) error {
	if len(name) < 1 || len(name) > maxName || name[0] == '.' {
		return errName
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return errName
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

func isHex(s string, digits int) bool {
	if len(s) != digits {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// label returns a valid name as one DNS label in presentation form, with its dots escaped.
func label(host string) string { return strings.ReplaceAll(host, ".", `\.`) }

// fromLabel is the inverse of label. It returns an error for a text that label does not return.
func fromLabel(l string) (string, error) {
	host := strings.ReplaceAll(l, `\.`, ".")
	if err := checkName(host); err != nil {
		return "", err
	}
	if label(host) != l {
		return "", errName
	}
	return host, nil
}
