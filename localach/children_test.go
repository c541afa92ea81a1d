package localach_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"achbridge/localach"
)

// startOurs runs this test binary as another process, to be killed (see child).
func startOurs(t testing.TB, d localach.Dir, op, name string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], string(d), name)
	cmd.Env = append(os.Environ(), "LOCALACH_CHILD="+op)
	return start(t, cmd)
}

// child runs such a process until it is killed: wait reads frames and waits for each, put puts frames into the channel that has
// the name at that time.
func child(op string, args []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(1) }) // in case the test has ended
	if op == "put" {
		putForever(localach.Dir(args[0]), args[1])
	}
	c, err := localach.Dir(args[0]).Open(filepath.Base(args[1]))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, buf := c.Reader(), make([]byte, 4096)
	fmt.Println("ready")
	for op == "wait" {
		if _, err := r.Next(buf, time.Minute); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			fmt.Println(err)
			return
		}
	}
}

func putForever(d localach.Dir, name string) {
	fmt.Println("ready")
	for {
		c, err := d.Open(name)
		if err != nil {
			continue
		}
		w, frame := c.Writer(), make([]byte, c.Geometry().FrameSize)
		for err == nil || errors.Is(err, localach.ErrBusy) {
			_, err = w.Put(frame)
		}
		go func() { // Close may hang
			w.Close()
			c.Close()
		}()
	}
}
