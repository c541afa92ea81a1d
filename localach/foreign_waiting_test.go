package localach_test

import (
	"errors"
	"os"
	"testing"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// The number of waiting readers shares a word with the clock, by which Ach 1.x is detected.
func TestAch1IsDetectedWhileReadersWait(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 4, 16)
	for range 2 {
		startPeer(t, pathOf(d, "imu"), "wait").ready()
	}
	await.True(t, "two readers wait", func() bool {
		stat, err := c.Stat()
		return err == nil && stat.Waiters == 2
	})
	file, err := os.OpenFile(pathOf(d, "imu"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(make([]byte, 4), 136); err != nil { // Ach 1.x stores no clock
		t.Fatal(err)
	}
	if _, err := d.TryOpen("imu"); !errors.Is(err, localach.ErrAch1x) {
		t.Errorf("TryOpen = %v, want ErrAch1x", err)
	}
}
