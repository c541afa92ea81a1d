package hub

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tests of thin links play on hosts of their own: this program runs there again in a role. All of
// them have one clock, this machine's.

const asRole = "ACHBRIDGE_HUB_ROLE" // put:CHANNEL:SIZE:HZ, next:CHANNEL

// scene is what the roles of a test share: a directory with credentials of each host.
const inScene = "ACHBRIDGE_HUB_SCENE"

// play runs a role until SIGTERM, and prints what came of it.
func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	name, _ := os.Hostname()
	c, err := ReadCredentials(filepath.Join(os.Getenv(inScene), name+".creds"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	client, err := New(Config{Credentials: c})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = client.Run(ctx)
	}()
	var told any
	switch words := strings.Split(role, ":"); words[0] {
	case "put":
		size, _ := strconv.Atoi(words[2])
		hz, _ := strconv.Atoi(words[3])
		told = putNewest(ctx, client.Channel(name, words[1]), size, hz)
	case "next":
		told = takeNewest(ctx, client.Channel("robot", words[1]))
	}
	if state := client.State(); !state.Connected {
		fmt.Fprintln(os.Stderr, role, state.Err)
	}
	<-done
	_ = json.NewEncoder(os.Stdout).Encode(told)
	return 0
}

func clock() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

// putLog is what a role that puts tells.
type putLog struct {
	Puts   []put
	Failed int
	Worst  string
}

// put is a frame: when it was captured and given to Put, and when the hub acknowledged it.
type put struct{ Captured, Acked time.Duration }

// putNewest puts what a program would have put last that puts hz times a second, whenever there is room.
func putNewest(ctx context.Context, ch *Channel, size, hz int) (told putLog) {
	period := time.Second / time.Duration(hz)
	frame := make([]byte, size)
	last := time.Duration(0)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for ctx.Err() == nil {
		if err := ch.Room(ctx, size); err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		captured := clock().Truncate(period)
		if captured == last {
			time.Sleep(period - (clock() - captured))
			continue
		}
		last = captured
		binary.BigEndian.PutUint64(frame, uint64(captured))
		limit, cancel := context.WithTimeout(ctx, 2*time.Second)
		acked, err := ch.Put(limit, frame)
		cancel()
		if err != nil {
			told.Failed++
			told.Worst = err.Error()
			continue
		}
		at := len(told.Puts)
		mu.Lock()
		told.Puts = append(told.Puts, put{Captured: captured})
		mu.Unlock()
		wait.Go(func() {
			if err := <-acked; err == nil {
				mu.Lock()
				told.Puts[at].Acked = clock()
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return told
}

// arrival is a frame that came: when, and when it was captured.
type arrival struct{ Came, Captured time.Duration }

func takeNewest(ctx context.Context, ch *Channel) (all []arrival) {
	newest := time.Duration(0)
	for {
		b, err := ch.Next(ctx)
		if err != nil {
			return all
		}
		if captured := time.Duration(binary.BigEndian.Uint64(b)); captured > newest {
			newest = captured
			all = append(all, arrival{clock(), captured})
		}
	}
}

// ages are how old the newest frame was, over time.
type ages struct {
	Mean, P99, Worst time.Duration
	Frames           int
}

func (a ages) String() string {
	return fmt.Sprintf("age %.1f ms, p99 %.1f ms, worst %.1f ms, %d frames", ms(a.Mean), ms(a.P99), ms(a.Worst), a.Frames)
}

// agesOf looks at the time between from and to, every tenth of a millisecond.
func agesOf(all []arrival, from, to time.Duration) (a ages) {
	var sum time.Duration
	var seen []time.Duration
	i := 0
	for at := from; at < to; at += 100 * time.Microsecond {
		for i+1 < len(all) && all[i+1].Came <= at {
			i++
		}
		if i >= len(all) || all[i].Came > at {
			continue
		}
		age := at - all[i].Captured
		sum += age
		seen = append(seen, age)
	}
	for _, one := range all {
		if one.Came >= from && one.Came < to {
			a.Frames++
		}
	}
	if len(seen) == 0 {
		return a
	}
	slices.Sort(seen)
	a.Mean = sum / time.Duration(len(seen))
	a.P99 = seen[len(seen)*99/100]
	a.Worst = seen[len(seen)-1]
	return a
}
