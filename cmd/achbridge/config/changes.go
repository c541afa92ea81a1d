package config

import (
	"reflect"
	"slices"
)

// Changes are the keys whose values are not those of before.
func (c *Config) Changes(before *Config) (now, restart []string) {
	now, restart = []string{}, []string{}
	for _, key := range configKeys {
		switch {
		case reflect.DeepEqual(key.of(c), key.of(before)):
		case key.fixed:
			restart = append(restart, key.name)
		default:
			now = append(now, key.name)
		}
	}
	slices.Sort(now)
	slices.Sort(restart)
	return now, restart
}

// KeepFixed takes over from before what a running daemon does not change, so
// that c is what runs.
func (c *Config) KeepFixed(before *Config) {
	for _, key := range configKeys {
		if key.fixed {
			reflect.ValueOf(key.of(c)).Elem().Set(reflect.ValueOf(key.of(before)).Elem())
			c.from[key.name] = before.from[key.name]
		}
	}
	c.StaticPeers, c.Zones = before.StaticPeers, before.Zones
}
