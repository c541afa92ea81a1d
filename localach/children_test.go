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

// startOurs runs this test binary as another process of ours, to be killed: see child.
func startOurs(t testing.TB, d localach.Dir, op, name string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], string(d), name)
	cmd.Env = append(os.Environ(), "LOCALACH_CHILD="+op)
	return start(t, cmd)
}

// child is what such a process does: wait reads frames until it is killed, and waits for each; put puts frames until it is
// killed, into whatever channel has the name.
func child(op string, args []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(1) }) // whoever was to kill us is gone
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
		go func() { // which may hang
			w.Close()
			c.Close()
		}()
	}
}
