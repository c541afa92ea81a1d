package rule

import (
	"fmt"
	"strings"

	"achbridge/localach"
)

const (
	// MetaSuffix is what the name of a companion has behind its mirror's.
	MetaSuffix = ".meta"
	// maxMirrorName is how long the name of a mirror with a companion may be.
	maxMirrorName = 58
)

// Expand puts the names into the template of a mirror's name.
func Expand(template, host, channel string) string {
	return strings.NewReplacer("{host}", achName(shortAchd(host)), "{channel}", channel).Replace(template)
}

// checkTemplate refuses a name that no mirror can have.
func checkTemplate(as string) error {
	if err := localach.CheckName(Expand(as, "h", "c")); err != nil {
		return fmt.Errorf("as %q: %w; {host} and {channel} stand for the names of the origin", as, err)
	}
	return nil
}

// achName makes a host's name fit for channels: bytes that Ach does not allow
// become '-'.
func achName(host string) string {
	if localach.CheckName(host) == nil {
		return host
	}
	return strings.Map(func(r rune) rune {
		if localach.CheckName("x"+string(r)) != nil {
			return '-'
		}
		return r
	}, host)
}

// CheckMetaName refuses a mirror whose companion could not have its name.
func CheckMetaName(mirror string) error {
	if len(mirror) > maxMirrorName {
		return fmt.Errorf("%s: longer than %d bytes, so that there is no name for its companion %s; give it a shorter one with as=NAME (--as), or leave meta out", mirror, maxMirrorName, mirror+MetaSuffix)
	}
	return nil
}
