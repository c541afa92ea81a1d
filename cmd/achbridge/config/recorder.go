package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
)

// Recorder holds the section record: what a daemon's flight recorder holds, and when it writes snapshots.
type Recorder struct {
	Keep     time.Duration // 0 means that there is no flight recorder
	Channels []string      // patterns; none means all channels
	Memory   int64         // limit, bytes
	Folder   string        // for snapshots of triggers; empty means the default
	Quota    int64         // limit of the snapshots in Folder, bytes
	After    time.Duration // time that a snapshot covers after its trigger
	Hold     time.Duration // time in which the same event does not trigger again
	On       []string      // each is one of RecordEvents
	When     []Condition
	Files    bool // write all frames into files too, which survive a kill
}

// Condition is a trigger on a field of a channel: its value passes a limit.
type Condition struct {
	Channel string
	Field   string // path of a number, an array or a struct, of which any number may pass the limit
	Below   bool   // the condition holds below Limit, otherwise above it
	Limit   float64
	Hold    time.Duration
	From    string // path of the rule, as in record.when[0]
}

// Holds reports whether a value is beyond the limit. NaN never is.
func (c Condition) Holds(x float64) bool {
	if c.Below {
		return x < c.Limit
	}
	return x > c.Limit
}

// LimitText returns the limit as text, as in "above 30".
func (c Condition) LimitText() string {
	side := "above"
	if c.Below {
		side = "below"
	}
	return fmt.Sprintf("%s %g", side, c.Limit)
}

// RecordEvents are the kinds of events that record.on may name.
var RecordEvents = []string{"deadline_missed", "foreign_writer", "link_down", "link_silent", "mux_changed", "operator"}

const (
	minKeep   = time.Second
	maxKeep   = time.Hour
	minMemory = 8 << 20
)

// recordKeys returns the keys of the rules of record.when.
func recordKeys() []ruleKey {
	when := []string{"record.when"}
	return []ruleKey{
		{name: "channel", lists: when, example: "robot.imu", doc: "Channel of this host or mirror. Its layout must be known: see types."},
		{name: "field", lists: when, example: "acc.z", doc: "Field with a number. Of an array or a struct, any number counts."},
		{name: "above", lists: when, example: "30", doc: "Write a snapshot when the number rises above this."},
		{name: "below", lists: when, example: "10.5", doc: "Write a snapshot when the number falls below this."},
		{name: "hold", lists: when, example: "60s", doc: "Time in which the condition does not trigger again (default: the value of hold in record)."},
	}
}

// buildRecorder parses and checks the section record.
func (c *Config) buildRecorder(b *ruleBuilder) {
	s := &c.Settings
	r := Recorder{
		Keep: s.RecordKeep, Channels: s.RecordChannels, Memory: int64(s.RecordMemory), Quota: int64(s.RecordQuota),
		After: s.RecordAfter, Hold: s.RecordHold, On: s.RecordOn, Files: s.RecordFiles,
	}
	if s.RecordDir != "" {
		r.Folder = s.RecordDir
		if at := c.from["record.dir"]; at.Source == c.Path && c.Path != "" && !filepath.IsAbs(r.Folder) {
			r.Folder = filepath.Join(filepath.Dir(c.Path), r.Folder)
		}
	}
	place := func(key string) origin { return c.placeOf("record."+key, -1) }
	if given := c.from["record.keep"] != (origin{}); given && (r.Keep < minKeep || r.Keep > maxKeep) {
		b.add(place("keep"), "%v: want %v to %v, as in 60s", r.Keep, minKeep, maxKeep)
	}
	if r.Memory < minMemory {
		b.add(place("memory"), "%s: want %s at least, as in 256MiB", ui.Bytes(int(r.Memory)), ui.Bytes(minMemory))
	}
	if r.Quota < minMemory {
		b.add(place("quota"), "%s: want %s at least, as in 1GiB", ui.Bytes(int(r.Quota)), ui.Bytes(minMemory))
	}
	if r.After < 0 || r.After > maxKeep {
		b.add(place("after"), "%v: want 0s to %v, as in 10s", r.After, maxKeep)
	}
	if r.Hold < 0 {
		b.add(place("hold"), "%v: want a time, as in 60s", r.Hold)
	}
	for i, text := range r.Channels {
		b.addError(c.placeOf("record.channels", i), rule.CheckPattern("channel", text))
	}
	for i, word := range r.On {
		if !slices.Contains(RecordEvents, word) {
			b.add(c.placeOf("record.on", i), "%q: want %s", word, ui.OrList(RecordEvents))
		}
	}
	r.When = b.conditions(s.RecordWhen, r)
	for _, key := range keysIn("record") {
		if at := place(key); key != "keep" && r.Keep == 0 && c.from["record."+key] != (origin{}) && c.from["record.keep"] == (origin{}) {
			b.add(at, "does nothing without keep: add keep: 60s below record:")
			break
		}
	}
	c.Recorder = r
}

// conditions makes the rules of record.when.
func (b *ruleBuilder) conditions(rules []ruleEntry, of Recorder) (list []Condition) {
	for _, r := range rules {
		if r.broken {
			continue
		}
		c, limits, before := Condition{Hold: of.Hold, From: r.at.Path}, 0, len(b.Problems)
		for _, o := range r.options {
			if len(o.values) == 0 {
				continue
			}
			v := o.values[0]
			var err error
			switch o.key {
			case "channel":
				if c.Channel = v.text; rule.IsPattern(v.text) || strings.Contains(v.text, "/") {
					err = fmt.Errorf("%q: want the name of one channel of this host, as in robot.imu", v.text)
				}
			case "field":
				c.Field = v.text
			case "hold":
				if c.Hold, err = time.ParseDuration(v.text); err != nil || c.Hold < 0 {
					err = fmt.Errorf("%q: want a time, as in 60s", v.text)
				}
			default: // above or below
				limits++
				c.Below = o.key == "below"
				if c.Limit, err = strconv.ParseFloat(v.text, 64); err != nil || math.IsNaN(c.Limit) {
					err = fmt.Errorf("%q: want a number, as in 30", v.text)
				}
			}
			b.addError(v.at, err)
		}
		switch {
		case len(b.Problems) > before:
			continue
		case c.Channel == "" || c.Field == "" || limits != 1:
			b.add(r.at, "want a channel, a field, and either above or below, as in {channel: robot.imu, field: acc.z, above: 30}")
		case len(of.Channels) > 0 && !rule.Matches(of.Channels, c.Channel):
			b.add(r.at, "%s is not recorded: add it to channels below record:", c.Channel)
		default:
			list = append(list, c)
		}
	}
	return list
}
