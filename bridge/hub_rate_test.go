package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet"
)

// A slow reader does not delay the other readers.
func TestSlowHubReaderDelaysNoOtherReader(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		ages := func(slow bool) float64 {
			hub := newWorldHub(w, hubMaxFrame)
			robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
			robot.atHub(hub, Config{})
			pc.atHub(hub, mirrorAll(rule.QoS{}), "robot")
			hosts := []*host{robot, pc}
			if slow {
				far := w.host("far", testnet.Params{})
				hub.as("far", 100e3)
				far.atHub(hub, mirrorAll(rule.QoS{}), "robot")
				hosts = append(hosts, far)
				defer func() {
					if n, age := far.newest("robot.imu"); n == 0 || age > 3*time.Second {
						t.Errorf("the slow one has frame %d, %v old", n, age)
					}
				}()
			}
			imu := robot.channel("imu", 16, 1000)
			imu.puts(1, 400, 1000, 10*time.Millisecond)
			sum, count := 0.0, 0
			for i := range uint64(2000) {
				imu.put(401+i, 1000)
				for range 10 {
					time.Sleep(time.Millisecond)
					_, age := pc.newest("robot.imu")
					sum, count = sum+age.Seconds(), count+1
				}
			}
			defer func() {
				for _, h := range hosts {
					h.stop()
				}
			}()
			return sum / float64(count) * 1000
		}
		alone := ages(false)
		beside := ages(true)
		t.Logf("mean age %.2f ms alone, %.2f ms beside a slow reader", alone, beside)
		if beside > 1.05*alone {
			t.Errorf("mean age %.2f ms beside a slow reader, %.2f ms alone: more than 5 %%", beside, alone)
		}
	})
}

// Frames are put no faster than the only reader receives them.
func TestHubPublishRateMatchesFastestReader(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		robot.atHub(hub, Config{})
		hub.as("pc", 160e3) // about 17 frames a second
		pc.atHub(hub, mirrorAll(rule.QoS{}), "robot")
		imu := robot.channel("imu", 16, 1000)
		imu.puts(1, 1000, 1000, 10*time.Millisecond)
		before := hub.puts("robot")
		imu.puts(1001, 1000, 1000, 10*time.Millisecond)
		rate := float64(hub.puts("robot")-before) / 10
		if rate > 1.35*19 || rate < 15 {
			t.Errorf("put %.1f frames a second for a reader that takes 19", rate)
		}
		time.Sleep(3 * time.Second)
		wantClosed(t, pc, robot)
	})
}

// At the hub, many readers cost the origin no more than one.
func TestHubUplinkIsIndependentOfReaderCount(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		uplink := func(readers int) float64 {
			hub := newWorldHub(w, hubMaxFrame)
			robot := w.host("robot", testnet.Params{}).atHub(hub, Config{})
			hosts := []*host{robot}
			imu := robot.channel("imu", 16, 1000)
			for range readers {
				h := w.host(fmt.Sprintf("pc%d", w.hosts), testnet.Params{}).atHub(hub, mirrorAll(rule.QoS{}), "robot")
				hosts = append(hosts, h)
			}
			imu.puts(1, 80, 1000, 50*time.Millisecond)
			var before, after uint64
			hub.tap("robot", func(t *hubTap) { before = t.ups })
			imu.puts(81, 200, 1000, 50*time.Millisecond)
			hub.tap("robot", func(t *hubTap) { after = t.ups })
			sent := float64(after - before)
			for _, h := range hosts[1:] {
				h.follows("robot.imu", 280, time.Second)
			}
			time.Sleep(3 * time.Second)
			for _, h := range hosts[1:] {
				wantClosed(t, h, robot)
			}
			for _, h := range hosts {
				h.stop()
			}
			return sent
		}
		one, many := uplink(1), uplink(12)
		t.Logf("%.0f bytes for one reader, %.0f for 12", one, many)
		if many > 1.05*one {
			t.Errorf("12 readers cost %.0f bytes, one %.0f", many, one)
		}
	})
}
