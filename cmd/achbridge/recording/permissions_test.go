package recording

import (
	"testing"

	"achbridge/localach"
)

// A channel whose file bears other permissions is the same one, though it may be impossible to open: it is read on, and
// no frame twice.
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
		t.Error("the channel was forgotten")
	}
}
