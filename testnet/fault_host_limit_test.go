package testnet_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitFiles changes how many descriptors a process may have.
func (p *process) limitFiles(n int) {
	p.t.Helper()
	limit := strconv.Itoa(n)
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(p.Process.Pid), "--nofile="+limit+":").CombinedOutput()
	if err != nil {
		p.t.Fatalf("prlimit: %v\n%s", err, out)
	}
}

// A daemon that may open nothing more keeps what it has and says what it lacks;
// what came meanwhile is there as soon as it may again.
func TestMirrorsFollowAfterADaemonHadNoDescriptorsLeft(t *testing.T) {
	longRun(t)
	for _, host := range []string{"robot", "pc"} {
		t.Run(host, func(t *testing.T) {
			o := startOrdeal(t)
			daemon := o.daemons[host]
			daemon.limitFiles(3) // fewer than it has: those stay
			late := o.publish("robot", "gps:20:5000", "battery:20:64")
			line := daemon.awaitLog("too many open files", patience)
			if !strings.Contains(line, "level=WARN") && !strings.Contains(line, "level=ERROR") {
				t.Errorf("got log line %q, want a warning", line)
			}
			time.Sleep(5 * time.Second) // for whatever else it may want to open
			daemon.alive()
			o.readers[0].follows(now(), resumed, o.readers[0].views...)

			daemon.limitFiles(1024)
			mended := now()
			views := []string{"reopen:robot.gps", "reopen:robot.battery"}
			took := o.observe("pc", views...).follows(mended, resumed, views...)
			t.Logf("channels that came meanwhile followed %v after there were descriptors again", took)
			o.grew(late, "gps", "battery")
			o.aftermath("no descriptors left to the daemon of "+host, mended)
		})
	}
}
