package main

import (
	"errors"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

func TestPutAtRateEndsWhenChannelIsRemoved(t *testing.T) {
	dir := localach.Dir(t.TempDir())
	ch, err := dir.Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	time.AfterFunc(50*time.Millisecond, func() { _ = dir.Unlink("imu") })
	if err := (&put{rate: 100}).run(await.Context(t), ch, []byte("frame")); !errors.Is(err, localach.ErrUnlinked) {
		t.Errorf("got %v, want %v", err, localach.ErrUnlinked)
	}
}
