package localach

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

const holderEnv = "ACHBRIDGE_TEST_LOCK_HOLDER" // the directory of the channel that the child shall keep locked

// TestLockOfADeadProcessIsGivenBack kills a process of ours that is inside put nearly all the time. Were the lock not
// announced to the kernel, the first kill inside put would leave it taken for ever.
func TestLockOfADeadProcessIsGivenBack(t *testing.T) {
	if dir := os.Getenv(holderEnv); dir != "" {
		putForEver(t, Dir(dir))
	}
	dirty := 0
	for range rounds(15, 200) {
		d := tempDir(t)
		c, err := d.Create("imu", CreateConfig{Geometry: Geometry{2, 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestLockOfADeadProcessIsGivenBack$")
		child.Env = append(os.Environ(), holderEnv+"="+string(d))
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the child puts", func() bool { return c.LastSeq() > 10 })
		time.Sleep(time.Duration(c.LastSeq()%7) * 100 * time.Microsecond)
		child.Process.Kill()
		child.Wait()
		_, err = c.Writer().Put([]byte("after"))
		if errors.Is(err, ErrDirty) {
			dirty++
			if err := c.Check(); !errors.Is(err, ErrDirty) {
				t.Errorf("Check: got %v, want %v", err, ErrDirty)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		c.Close()
		os.RemoveAll(string(d))
	}
	if dirty == 0 {
		t.Error("no kill hit the inside of a put: the test shows nothing")
	}
}

func putForEver(t *testing.T, d Dir) {
	c, err := d.Open("imu")
	if err != nil {
		t.Fatal(err)
	}
	w, frame := c.Writer(), make([]byte, 1<<20)
	for {
		w.Put(frame)
	}
}
