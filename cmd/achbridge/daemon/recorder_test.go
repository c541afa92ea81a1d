package daemon

import (
	"slices"
	"testing"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

func TestRecorderTriggersAreKindsOfEvents(t *testing.T) {
	for _, word := range config.RecordEvents {
		if !slices.Contains(status.EventKinds, status.EventKind(word)) {
			t.Errorf("no event is of kind %s", word)
		}
	}
}
