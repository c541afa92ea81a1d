package foxglove

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// TokenFile is the file in the state directory that has the token of viewers.
const TokenFile = "foxglove-token"

// tokenMode lets the group of the daemon's user read the token.
const tokenMode = 0o640

// tokenText allows only characters that need no escape in a URL. 26 characters of base32 have 128 bits.
var tokenText = regexp.MustCompile(`^[A-Za-z0-9_-]{26,200}$`)

// ReadToken returns the token in a file. If there is no file, ReadToken calls keep to write a new token into it. It refuses a
// file that others than its owner and group may read or that others than its owner may write. Errors contain no token.
func ReadToken(path string, keep func(path string, text []byte, mode fs.FileMode) error) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		if err := keep(path, []byte(token+"\n"), tokenMode); err != nil {
			return "", fmt.Errorf("foxglove token: %w", err)
		}
		return token, nil
	}
	if err != nil {
		return "", fmt.Errorf("foxglove token: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("foxglove token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&^tokenMode != 0 {
		return "", fmt.Errorf("foxglove token %s: mode %04o gives others access: chmod 640 %s", path, mode, path)
	}
	token := strings.TrimSpace(string(text))
	if !tokenText.MatchString(token) {
		return "", fmt.Errorf("foxglove token %s: want 26 to 200 of A-Z a-z 0-9 - _; remove the file to get a new token", path)
	}
	return token, nil
}

// isToken reports in constant time whether text is the token.
func isToken(text, token string) bool {
	got, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
