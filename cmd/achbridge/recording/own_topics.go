package recording

import (
	"fmt"
	"strings"

	"achbridge/bridge/status"
)

// ownTopic is a topic of texts in JSON that the recorder itself writes.
type ownTopic struct {
	name       string // has a '/', which no channel has
	schemaName string
	schema     string
}

// Names of our own topics.
const (
	DropsTopic  = "achbridge/drops"  // frames that are not in the file
	AgesTopic   = "achbridge/ages"   // ages of mirrors, once a second
	EventsTopic = "achbridge/events" // events of the daemon
)

var (
	dropsTopic  = &ownTopic{DropsTopic, "achbridge.Drop", objectSchema("channel string", "cause string", "count integer", "total integer")}
	agesTopic   = &ownTopic{AgesTopic, "achbridge.Age", objectSchema("channel string", "origin string", "age_ms number", "state string")}
	eventsTopic = &ownTopic{EventsTopic, "achbridge.Event", objectSchema("seq integer", "time string", "kind string", "host string", "channel string", "mirror string", "text string", "count integer", "end string")}
)

// objectSchema returns a JSON schema with the properties "NAME TYPE".
func objectSchema(properties ...string) string {
	var list []string
	for _, p := range properties {
		name, kind, _ := strings.Cut(p, " ")
		list = append(list, fmt.Sprintf("%q:{\"type\":%q}", name, kind))
	}
	return `{"type":"object","properties":{` + strings.Join(list, ",") + `}}`
}

// Drop is one event on DropsTopic.
type Drop struct {
	Channel string `json:"channel"`
	Cause   string `json:"cause"`
	Count   uint64 `json:"count"`
	Total   uint64 `json:"total"` // drops of this cause since the recording began
}

// Age is the age of a mirror on AgesTopic.
type Age struct {
	Channel string             `json:"channel"` // name of the mirror
	Origin  string             `json:"origin"`  // HOST/CHANNEL
	AgeMs   *float64           `json:"age_ms"`  // age of its newest frame; null if it is unknown
	State   status.MirrorState `json:"state"`
}

// isOwn reports whether a topic of a file is one of ours.
func isOwn(name string) bool { return name == DropsTopic || name == AgesTopic || name == EventsTopic }
