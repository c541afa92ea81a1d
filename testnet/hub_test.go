package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// atHub runs do with a hub, a host robot that has put into imu and odom, and a reader pc.
func atHub(t *testing.T, line Params, do func(t *testing.T, h *Hub, robot, pc *HubHost)) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(1 << 20)
		do(t, h, h.Host("robot", line, line), h.Host("pc", line, line))
	})
}

func putAt(t *testing.T, c *HubChannel, frame string) {
	t.Helper()
	acked, err := c.Put(t.Context(), []byte(frame))
	if err == nil {
		err = <-acked
	}
	if err != nil {
		t.Fatal(err)
	}
}

// gotWithin returns the frames that arrive within a second.
func gotWithin(t *testing.T, c *HubChannel) (frames []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for {
		b, err := c.Next(ctx)
		if err != nil {
			return frames
		}
		frames = append(frames, string(b))
	}
}

func TestHubDeceivesReaders(t *testing.T) {
	for _, c := range []struct {
		lie  Lie
		want string // what the reader gets of three frames, each put after the previous one was read
	}{
		{Honest, "[a][b][c]"},
		{Replays, "[a][b a][c b]"},
		{Doubles, "[a a][b b][c c]"},
		{Reorders, "[][b a][]"},
		{Withholds, "[][][]"},
		{Delays, "[a][b][c]"},
		{Impersonates, "[other][other][other]"},
	} {
		t.Run(c.lie.String(), func(t *testing.T) {
			atHub(t, Params{Delay: time.Millisecond}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
				putAt(t, robot.Channel("robot", "odom"), "other")
				h.Deceive(Deceit{Frames: c.lie, By: 500 * time.Millisecond})
				out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
				got := ""
				for _, frame := range []string{"a", "b", "c"} {
					began := time.Now()
					read := make(chan []string)
					go func() { read <- gotWithin(t, in) }()
					synctest.Wait()
					putAt(t, out, frame)
					got += fmt.Sprint(<-read)
					if c.lie == Delays && time.Since(began) < 500*time.Millisecond {
						t.Error("nothing was delayed")
					}
				}
				if got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestHubForgesDifferentBits(t *testing.T) {
	atHub(t, Params{}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
		h.Deceive(Deceit{Frames: Forges})
		out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
		seen := map[string]bool{}
		for range 20 {
			putAt(t, out, "\x00\x00\x00\x00")
			b, err := in.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ones := 0
			for _, x := range b {
				for ; x != 0; x &= x - 1 {
					ones++
				}
			}
			if ones != 1 {
				t.Errorf("got %x, want one bit", b)
			}
			seen[string(b)] = true
		}
		if len(seen) < 10 {
			t.Errorf("got %d forgeries of 20, want many", len(seen))
		}
	})
}

func TestHubDeceivesStreams(t *testing.T) {
	for _, c := range []struct {
		lie  Lie
		want string // what the reader gets of "one", "two" and "three", and why the stream ends
	}{
		{Honest, "onetwothree EOF"},
		{Replays, "onetwo " + ErrHubBroken.Error()},
		{Doubles, "one " + ErrHubBroken.Error()},
		{Reorders, " " + ErrHubBroken.Error()},
		{Withholds, " " + ErrHubBroken.Error()}, // because of the message that closes the stream
		{Delays, "onetwothree EOF"},
	} {
		t.Run(c.lie.String(), func(t *testing.T) {
			atHub(t, Params{Delay: time.Millisecond}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
				accepted := make(chan net.Conn)
				go func() {
					b, _ := pc.Accept(t.Context())
					accepted <- b
				}()
				a, err := robot.Dial(t.Context(), "pc")
				if err != nil {
					t.Fatal(err)
				}
				b := <-accepted
				h.Deceive(Deceit{Streams: c.lie, By: time.Second})
				for _, part := range []string{"one", "two", "three"} {
					a.Write([]byte(part))
				}
				a.Close()
				var got bytes.Buffer
				_, err = io.Copy(&got, b)
				if err == nil {
					err = io.EOF
				}
				if text := fmt.Sprintf("%s %v", &got, err); text != c.want {
					t.Errorf("got %q, want %q", text, c.want)
				}
			})
		})
	}
}

func TestHubMisroutesStreams(t *testing.T) {
	atHub(t, Params{Delay: time.Millisecond}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
		spy := h.Host("spy", Params{}, Params{})
		h.Deceive(Deceit{Streams: Impersonates})
		go func() {
			b, err := spy.Accept(t.Context())
			if err != nil {
				return
			}
			b.Write([]byte("trust me, " + b.RemoteAddr().String()))
			b.Close()
		}()
		a, err := robot.Dial(t.Context(), "pc")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(a)
		if string(got) != "trust me, robot" || err != nil || a.RemoteAddr().String() != "pc" {
			t.Errorf("got %q, %v from %v, want the spy in the name of pc", got, err, a.RemoteAddr())
		}
	})
}

func TestHubLineLimitsRate(t *testing.T) {
	atHub(t, Params{Delay: 10 * time.Millisecond, Rate: 1e6}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
		out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
		go out.Put(t.Context(), make([]byte, 1000-hubOverhead))
		began := time.Now()
		if _, err := in.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(began), 2*(10+8)*time.Millisecond; took != want {
			t.Errorf("a frame took %v, want %v", took, want)
		}
	})
}

func TestHubResumeDeliversStalledMessages(t *testing.T) {
	atHub(t, Params{Delay: 10 * time.Millisecond}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
		out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
		h.Stall("robot")
		acked, err := out.Put(t.Context(), []byte("late"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { h.Resume("robot") })
		began := time.Now()
		if b, err := in.Next(t.Context()); string(b) != "late" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		if took, want := time.Since(began), time.Minute+10*time.Millisecond; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		if err := <-acked; err != nil {
			t.Error(err)
		}
	})
}

func TestHubForgetDropsFrames(t *testing.T) {
	atHub(t, Params{Delay: 10 * time.Millisecond}, func(t *testing.T, h *Hub, robot, pc *HubHost) {
		out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
		putAt(t, out, "gone")
		acked, err := out.Put(t.Context(), []byte("under way"))
		if err != nil {
			t.Fatal(err)
		}
		h.Forget()
		if err := <-acked; !errors.Is(err, ErrHubAway) {
			t.Errorf("word on what was under way: got %v, want ErrHubAway", err)
		}
		if got := gotWithin(t, in); got != nil {
			t.Errorf("got %q, want nothing", got)
		}
		putAt(t, out, "new")
		if got := gotWithin(t, in); len(got) != 1 || got[0] != "new" {
			t.Errorf("got %q, want new", got)
		}
	})
}
