package config

import (
	"reflect"
	"slices"
)

// Changes returns the keys whose values differ from those of before. now has the keys that a
// running daemon can change, restart those that need a restart.
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

// KeepFixed copies from before the values that a running daemon cannot change. Afterwards c
// is the configuration in effect.
func (c *Config) KeepFixed(before *Config) {
	for _, key := range configKeys {
		if key.fixed {
			reflect.ValueOf(key.of(c)).Elem().Set(reflect.ValueOf(key.of(before)).Elem())
			c.from[key.name] = before.from[key.name]
		}
	}
	c.StaticPeers, c.Zones = before.StaticPeers, before.Zones
}
