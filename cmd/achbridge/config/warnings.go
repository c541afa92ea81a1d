package config

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"achbridge/bridge/rule"
)

// Warnings returns a sentence for each setting that is probably wrong, and for each rule that never applies, since an
// earlier rule matches all of its channels.
func (c *Config) Warnings() []string {
	return slices.Concat(c.warnings, c.addressesAsNames(), c.unreached())
}

// warn adds a warning about a setting.
func (c *Config) warn(at origin, text string) {
	c.warnings = append(c.warnings, problem{at, text}.Error())
}

// warnOfTypography warns of characters that some editors put in place of plain quotes and blanks. YAML takes them as a
// part of the text.
func (c *Config) warnOfTypography(path string, text []byte) {
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, " #")
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, w := range []struct{ characters, text string }{
			{"“”„‘’‚", "a curly quote is a part of the text; want \" or '"},
			{"\u00a0", "a no-break space is a part of the text; want U+0020"},
		} {
			if at := strings.IndexAny(line, w.characters); at >= 0 {
				c.warn(origin{Source: path, Line: number, Column: utf8.RuneCountInString(line[:at]) + 1}, w.text)
			}
		}
	}
}

// addressesAsNames returns a sentence for each rule that names a host by its address, which no host has as its name.
func (c *Config) addressesAsNames() (list []string) {
	check := func(host, from string) {
		if _, err := netip.ParseAddr(host); err == nil {
			list = append(list, c.ruleText(from)+": "+host+" is an address, and rules match names: see achbridge ls; addresses belong in peers")
		}
	}
	for _, m := range c.MirrorRules {
		if !rule.IsAchd(m.Host) {
			check(m.Host, m.From)
		}
	}
	for _, p := range c.PushRules {
		check(p.Host, p.From)
	}
	for _, g := range slices.Concat(c.ExportGrants, c.AcceptGrants) {
		for _, host := range g.Hosts {
			check(host, g.From)
		}
	}
	return list
}
