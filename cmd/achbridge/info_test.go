package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
)

func TestInfoPrintsNoEscapeSequencesOfFile(t *testing.T) {
	var out, said bytes.Buffer
	a, now := &app{ui: &ui.Terminal{Out: &out, Err: &said}}, time.Now()
	err := a.showRecording(recording.Summary{File: "run.mcap", Host: "h\x1b[2J", Start: &now, End: &now, Channels: []recording.ChannelSummary{
		{Channel: "c\x1b]0;title\a", Frames: 1, Drops: map[string]uint64{"late\x1b[1m": 1}, Type: "t", TypeFrom: status.TypeFromOrigin},
	}})
	if err != nil || strings.Contains(out.String()+said.String(), "\x1b") || !strings.Contains(out.String(), `h\x1b[2J`) {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
