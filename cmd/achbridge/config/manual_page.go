package config

import (
	"fmt"
	"slices"
	"strings"

	"achbridge/cmd/achbridge/ui"
)

// ManualPage returns the manual page of the configuration file, achbridge.yaml(5), in Markdown without its heading.
func ManualPage() string {
	var b strings.Builder
	b.WriteString(`# NAME
achbridge.yaml \- configuration of achbridge

# DESCRIPTION
The configuration of the daemon, in YAML. Every key may be left out. A flag of achbridge-run(1) with the same meaning has precedence over an environment variable, and that over the file. File names are relative to the directory of the file.

# FILES

**/etc/achbridge/achbridge.yaml**
: of root and of the service

**$XDG_CONFIG_HOME/achbridge/achbridge.yaml**
: of another user, usually in ~/.config

# KEYS

`)
	for _, k := range configKeys {
		fmt.Fprintf(&b, "**%s**%s\n: %s\n\n", InManual(k.name), manualValue(k.words, k.example), InManual(k.doc))
	}
	b.WriteString("# RULES\nThe entries of export, accept, mirror, merge, push, mux and channels are rules: texts, or mappings with these keys.\n\n")
	for _, k := range ruleKeys() {
		lists := slices.Clone(k.lists)
		slices.Sort(lists)
		fmt.Fprintf(&b, "**%s**%s\n: %s In rules of %s.\n\n", InManual(k.name), manualValue(k.words, k.example), InManual(k.doc), ui.AndList(lists))
	}
	b.WriteString("# EXAMPLE\n```\n" + `mirror:
  - match: krang/imu
    as: imu
    preset: command
  - 'krang/camera*,preset=video'
  - deny: '*/debug*'
accept:
  - match: goal
    hosts: [planner]
` + "```\n\n# SEE ALSO\n**achbridge-run(1)**, **achbridge-check(1)**\n")
	return b.String()
}

// manualValue returns the text after a key in the manual page: its possible values, or an example of a value.
func manualValue(words []string, example string) string {
	switch {
	case len(words) > 0:
		return ": " + InManual(strings.Join(words, " | "))
	case example != "":
		return ": *" + InManual(example) + "*"
	}
	return ""
}

// InManual escapes text, so that Markdown does not interpret characters in it as markup.
func InManual(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`, "|", `\|`).Replace(text)
}
