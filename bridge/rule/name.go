package rule

import (
	"fmt"
	"strings"

	"achbridge/localach"
)

const (
	// MetaSuffix is the suffix of the name of a metadata channel.
	MetaSuffix = ".meta"
	// maxMirrorName is the greatest length of the name of a mirror with a metadata channel.
	maxMirrorName = 58
)

// Expand replaces {host} and {channel} in the template of a mirror's name.
func Expand(template, host, channel string) string {
	return strings.NewReplacer("{host}", achName(shortAchd(host)), "{channel}", channel).Replace(template)
}

// checkTemplate returns an error if no mirror can have the name.
func checkTemplate(as string) error {
	if err := localach.CheckName(Expand(as, "h", "c")); err != nil {
		return fmt.Errorf("as %q: %w; {host} and {channel} stand for the names of the origin", as, err)
	}
	return nil
}

// achName converts a host name for use in channel names: bytes that Ach does not allow become '-'.
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

// CheckMetaName returns an error if the name of the mirror's metadata channel would be too long.
func CheckMetaName(mirror string) error {
	if len(mirror) > maxMirrorName {
		return fmt.Errorf("%s: longer than %d bytes, so that its metadata channel %s has no room for its name; give it a shorter one with as=NAME (--as), or leave meta out", mirror, maxMirrorName, mirror+MetaSuffix)
	}
	return nil
}
