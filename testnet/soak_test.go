package testnet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// Runs for as long as ACHBRIDGE_SOAK: thirty channels, a PC whose subscriptions begin
// and end, an operator's station that is switched off and on, and a network that changes
// every two seconds. The daemons of robot and PC run during the whole test. Each third
// has the same faults, so that the memory of the thirds can be compared. Without
// ACHBRIDGE_SOAK the test is short and does not compare memory (see minComparableSoak).
// ACHBRIDGE_SEED repeats the same faults.
func TestSoak(t *testing.T) {
	if os.Getenv("ACHBRIDGE_SOAK") == "" {
		need.Long(t)
	}
	length, seed := soakLength(t), soakSeed(t)
	t.Logf("%v with ACHBRIDGE_SEED=%d", length, seed)
	w := startSoak(t)
	calm := w.usages()
	samples := sample(t, w.robot, w.pc)
	s := randomFaults{soak: w, unmirrored: map[string]bool{}}
	for third := range thirds {
		samples.begin(third)
		s.random = rand.New(rand.NewPCG(seed, 0))
		for end := time.Now().Add(length / thirds); time.Now().Before(end); {
			s.inject()
		}
		s.restore()
	}
	samples.end()
	w.publisher.checkUndisturbed(w.control) // removes the publisher's channels
	t.Logf("faults: %v", s.counts)
	w.publisher = w.publish("robot", soakChannels()...)
	w.follow()

	w.publisher.freeze()
	w.waitForLastFrame()
	w.waitForCounters()
	w.waitUntilBackAt(calm)
	w.checkNeverRestarted()
	samples.check(length)
}

// soakLength returns how long to inject faults.
func soakLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ACHBRIDGE_SOAK")
	if text == "" {
		return 3 * time.Second
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 {
		t.Fatalf("ACHBRIDGE_SOAK=%s: want a time such as 10m or 1h", text)
	}
	return length
}

func soakSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ACHBRIDGE_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ACHBRIDGE_SEED=%s: want a number", text)
	}
	return seed
}

// soakChannels returns 28 small channels and two large ones, as arguments of the
// publisher: 4,700 frames and 4.4 MB a second.
func soakChannels() (list []string) {
	rates := []int{1000, 500, 200, 200, 100, 100, 50, 50, 50, 20, 20, 10, 10, 10}
	sizes := []int{64, 200, 500, 1000, 1100, 1300, 2000, 3000, 100}
	for i := range 28 {
		list = append(list, fmt.Sprintf("%s:%d:%d", small(i), rates[i%len(rates)], sizes[i%len(sizes)]))
	}
	return append(list, "scan:10:100000", "camera:3:300000")
}

func small(i int) string { return fmt.Sprintf("c%02d", i) }

// soakNames returns the channels' names.
func soakNames() (names []string) {
	for i := range 28 {
		names = append(names, small(i))
	}
	return append(names, "scan", "camera")
}

// slow are channels of 50 Hz that are always mirrored, so that two readers on the PC see
// their frames from beginning to end, and in order (observation.checkOrder).
var slow = []string{small(6), small(7)}

// soak is a robot, its PC and its operator's station.
type soak struct {
	*site
	robot, pc, operator *process
	publisher, control  *process // control's channels are not mirrored
	readers             *observation
}

func startSoak(t *testing.T) *soak {
	t.Helper()
	w := &soak{site: newSite(t, "robot", "pc", "operator")}
	w.control = w.publish("robot", "alone:1000:64")
	w.publisher = w.publish("robot", soakChannels()...)
	w.robot = w.startMeasured("robot", "--export", "c*", "--export", "scan")
	args := []string{}
	for _, name := range soakNames() { // each by its name, so that it can be unmirrored
		args = append(args, "--mirror", "robot/"+name)
	}
	w.pc = w.startMeasured("pc", args...)
	w.startOperator()
	w.readers = w.observe("pc", "keep:robot."+slow[0], "reopen:robot."+slow[1])
	w.readers.waitUntilFollowing(now(), meetLimit, "keep:robot."+slow[0], "reopen:robot."+slow[1])
	w.follow()
	return w
}

// startMeasured starts a daemon whose memory is recorded. By default Go collects garbage
// when the heap has doubled, so the peak would be twice the memory that was in use at the
// last collection, with or without copies of large frames. With GOGC=10 the peak is the
// memory that the daemon keeps.
func (w *soak) startMeasured(host string, args ...string) *process {
	return w.startWith([]string{"GOGC=10"}, host, "achbridge", append([]string{"run"}, args...)...)
}

// startOperator starts the operator's daemon.
func (w *soak) startOperator() {
	w.operator = w.run("operator", "--mirror", "robot/c*", "--mirror", "robot/scan")
}

// follow waits until all mirrors get frames that are put from now on.
func (w *soak) follow() {
	w.t.Helper()
	before := w.lastFrames()
	for _, host := range []string{"pc", "operator"} {
		await.NoError(w.t, func() error {
			mirrors := w.mirrors(host)
			for _, name := range soakNames() {
				if m, ok := mirrors[name]; !ok || m.State != "live" || m.Seq <= before[name] {
					return fmt.Errorf("mirror of %s on %s: got %+v, want it live and past frame %d", name, host, m, before[name])
				}
			}
			return nil
		})
	}
}

// checkNeverRestarted checks that the daemons of robot and PC were not restarted.
func (w *soak) checkNeverRestarted() {
	w.t.Helper()
	for host, p := range map[string]*process{"robot": w.robot, "pc": w.pc} {
		if up, lived := w.status(host).UptimeS, time.Since(p.began).Seconds(); up < lived-5 {
			w.t.Errorf("daemon of %s: up for %.0f s, want %.0f s", host, up, lived)
		}
	}
}
