package rule

import (
	"slices"
	"time"
)

// PresetKey is the key of a preset in a rule, such as preset=command. A preset sets several options. Options that the rule sets
// itself have precedence.
const PresetKey = "preset"

// preset is a name for values of several options. The values of a released preset never change, since robots rely on them.
type preset struct {
	name string
	sets []Setting
}

var presets = []preset{
	{"state", []Setting{{"class", "state"}, {"mode", "newest"}, {"priority", "4"}, {"budget", DefaultBudget.String()}}},
	{"command", []Setting{{"class", "command"}, {"priority", "7"}, {"budget", (50 * time.Millisecond).String()}}},
	{"log", []Setting{{"mode", "every"}, {"priority", "2"}}},
	{"video", []Setting{{"priority", "2"}, {"budget", (200 * time.Millisecond).String()}}},
}

// PresetNames returns the names of all presets.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

// PresetSettings returns the options that a preset sets, nil for an unknown name.
func PresetSettings(name string) []Setting {
	for _, p := range presets {
		if p.name == name {
			return p.sets
		}
	}
	return nil
}

// PresetOption returns the option for the command line that sets the options of a preset.
func PresetOption() Option {
	return Option{
		Key: PresetKey, Words: PresetNames(), Usage: "begin with the options of a preset",
		set:  func(q *QoS, name string, _ ReadFile) error { return q.setPreset(name) },
		text: func(QoS) string { return presets[0].name },
	}
}

func (q *QoS) setPreset(name string) error {
	i, err := parseValue[uint8](PresetNames(), name)
	if err != nil {
		return err
	}
	for _, s := range presets[i].sets {
		if err := q.Set(s.Key, s.Value, nil); err != nil {
			return err
		}
	}
	return nil
}

// presetFirst returns settings with the preset at the beginning, so that the other settings override its options.
func presetFirst(settings []Setting) []Setting {
	if i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == PresetKey }); i > 0 {
		settings = slices.Insert(slices.Delete(slices.Clone(settings), i, i+1), 0, settings[i])
	}
	return settings
}

// IsRepeated reports whether a preset sets the option key to the given value, so that setting it again has no effect.
func IsRepeated(preset, key, value string) bool {
	var with, both QoS
	i := slices.IndexFunc(options, func(o Option) bool { return o.Key == key })
	sets := slices.ContainsFunc(PresetSettings(preset), func(s Setting) bool { return s.Key == key })
	if i < 0 || !sets || with.setPreset(preset) != nil || both.Set(key, value, nil) != nil {
		return false
	}
	return options[i].Text(with) == options[i].Text(both)
}
