package recording

import (
	"testing"

	"achbridge/localach"
)

// A channel remains the same when the permissions of its file change, even if the file can no longer be opened. Recording
// continues, and no frame is recorded twice.
func TestPermissionChangeDoesNotEndRecording(t *testing.T) {
	dir := testDir(t)
	create(t, dir, "imu", 16, 64).put(1)
	s, err := openStream(dir, "imu", "krang")
	if err != nil {
		t.Fatal(err)
	}
	defer s.ch.Close()
	r := &recorder{streams: map[string]*stream{"imu": s}}
	r.changed(localach.Event{Name: "imu", Kind: localach.Replaced})
	if r.streams["imu"] != s {
		t.Error("the recorder has closed the channel, want it to continue")
	}
}
