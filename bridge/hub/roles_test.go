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

// Tests of slow links use emulated hosts, on which this program runs again in a role. All roles use the clock of this
// machine.

const asRole = "ACHBRIDGE_HUB_ROLE" // put:CHANNEL:SIZE:HZ, next:CHANNEL

// inScene is the variable with the directory that the roles of a test share. It has the
// credentials of each host.
const inScene = "ACHBRIDGE_HUB_SCENE"

// play runs a role until SIGTERM, and prints its result.
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
	var result any
	switch words := strings.Split(role, ":"); words[0] {
	case "put":
		size, _ := strconv.Atoi(words[2])
		hz, _ := strconv.Atoi(words[3])
		result = putNewest(ctx, client.Channel(name, words[1]), size, hz)
	case "next":
		result = takeNewest(ctx, client.Channel("robot", words[1]))
	}
	if state := client.State(); !state.Connected {
		fmt.Fprintln(os.Stderr, role, state.Err)
	}
	<-done
	_ = json.NewEncoder(os.Stdout).Encode(result)
	return 0
}

func clock() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

// putLog is the result of a role that puts.
type putLog struct {
	Puts   []put
	Failed int
	Worst  string
}

// put has the times of a frame: when it was captured and passed to Put, and when the hub
// acknowledged it.
type put struct{ Captured, Acked time.Duration }

// putNewest simulates a program that puts hz times a second. Whenever there is room, it puts the
// newest frame.
func putNewest(ctx context.Context, ch *Channel, size, hz int) (result putLog) {
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
			result.Failed++
			result.Worst = err.Error()
			continue
		}
		at := len(result.Puts)
		mu.Lock()
		result.Puts = append(result.Puts, put{Captured: captured})
		mu.Unlock()
		wait.Go(func() {
			if err := <-acked; err == nil {
				mu.Lock()
				result.Puts[at].Acked = clock()
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return result
}

// arrival has the times of a received frame: its arrival and its capture.
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

// ages summarizes the age of the newest frame over time.
type ages struct {
	Mean, P99, Worst time.Duration
	Frames           int
}

func (a ages) String() string {
	return fmt.Sprintf("age %.1f ms, p99 %.1f ms, worst %.1f ms, %d frames", ms(a.Mean), ms(a.P99), ms(a.Worst), a.Frames)
}

// agesOf samples the time from from to to, every tenth of a millisecond.
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
