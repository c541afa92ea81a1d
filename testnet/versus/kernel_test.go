package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

func TestPerfAndStraceCountsAreParsed(t *testing.T) {
	if n, err := perfCount("144,,raw_syscalls:sys_enter,863068,100.00,,\n"); err != nil || n != 144 {
		t.Errorf("perf: got %v, %v; want 144", n, err)
	}
	if n, err := straceCount("strace: Process 1 attached\n    calls syscall\n--------- ----------------\n       12 read\n        3 write\n--------- ----------------\n       15 total\n"); err != nil || n != 15 {
		t.Errorf("strace: got %v, %v; want 15", n, err)
	}
	for _, bad := range []string{"", "<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n", "<not counted>,,raw_syscalls:sys_enter,0\n", "perf: command failed"} {
		if n, err := perfCount(bad); err == nil {
			t.Errorf("%q: got %v of perf, want an error", bad, n)
		}
		if n, err := straceCount(bad); err == nil {
			t.Errorf("%q: got %v of strace, want an error", bad, n)
		}
	}
}

func TestSentPacketsAreThoseOfTheLAN(t *testing.T) {
	const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    5000      50    0    0    0     0          0         0    12345      67    0    0    0     0       0          0
`
	if packets, size, err := sentOf(dev); err != nil || packets != 67 || size != 12345 {
		t.Errorf("got %v packets, %v bytes, %v; want 67 and 12345", packets, size, err)
	}
	if _, _, err := sentOf("lo: 1 2 3"); err == nil {
		t.Error("without eth0: want an error")
	}
}

func TestKernelTableOmitsRunsThatLostFrames(t *testing.T) {
	run := func(turn int, lost float64, calls float64) result {
		return result{Tool: "x", Turn: turn, Groups: []ageStats{{Frames: 100, Lost: lost}}, Kernel: []kernel{{Syscalls: calls}, {Syscalls: 50}}}
	}
	results := []result{run(0, 0, 1000), run(1, 0.01, 9000)}
	if got := strings.Join(kernelRow("x", results), "|"); got != "10.0 + 0.5|0.0 + 0.0|0.00 + 0.00|0 + 0|1 of 2" {
		t.Errorf("got %s", got)
	}
	if got := kernelRow("x", results[1:])[0]; got != "lost too many frames" {
		t.Errorf("all runs lost frames: got %s", got)
	}
}

// mostOfBareQUIC are the largest accepted ratios of achbridge's system calls for each frame to those of bare quic-go, on the robot
// and on the PC. Idle machines measure 1.0 and 0.8.
var mostOfBareQUIC = [2]float64{1.6, 1.3}

// mostLostHere is the largest share of lost frames with which a run counts in this test. It changes the ratio by at most that share.
// mostLost would be too strict: busy machines often lose more.
const mostLostHere = 0.02

// Both programs run on the same machine, one after the other. A run that loses more frames does not count, and is repeated.
func TestSystemCallsStayNearThoseOfBareQUIC(t *testing.T) {
	need.Long(t)
	if _, err := findCounter(); err != nil {
		t.Fatal(err)
	}
	hosts.StartTest(t, hosts.Config{Hosts: []string{"try"}}).Close()
	const tries = 3
	for try := 1; ; try++ {
		var out, log bytes.Buffer
		if err := run([]string{"--syscalls", "--json", "--for", "3s", "--tools", "achbridge-quic,quic-ping", "lan-1k"}, &out, &log); err != nil {
			t.Fatal(err, log.String())
		}
		var results []result
		if err := json.Unmarshal(out.Bytes(), &results); err != nil {
			t.Fatal(err)
		}
		var calls [2][]kernel
		for i, r := range results {
			if r.Err != "" {
				t.Fatal(r.Err)
			}
			if g := r.Groups[0]; g.Lost <= mostLostHere {
				calls[i] = []kernel{r.Kernel[0].per(float64(g.Frames)), r.Kernel[1].per(float64(g.Frames))}
			}
		}
		if calls[0] == nil || calls[1] == nil {
			t.Logf("try %d: lost %.2f %% and %.2f %% of the frames, so it does not count", try, 100*results[0].Groups[0].Lost, 100*results[1].Groups[0].Lost)
			if try == tries {
				t.Skipf("needs an idle machine: %d runs lost frames", tries)
			}
			continue
		}
		for i, host := range hostNames {
			own, bare := calls[0][i], calls[1][i]
			t.Logf("%s: %+v, bare quic-go %+v", host, own, bare)
			if ratio := own.Syscalls / bare.Syscalls; ratio > mostOfBareQUIC[i] {
				t.Errorf("%s: %.1f system calls for each frame, %.2f times those of bare quic-go; want at most %v times", host, own.Syscalls, ratio, mostOfBareQUIC[i])
			}
		}
		return
	}
}
