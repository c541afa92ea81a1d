package localach_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"achbridge/localach"
	"achbridge/testnet/need"
)

// layouts has the layouts in ach-abi.md, measured on real machines.
var layouts = map[string]map[string]float64{
	"amd64": {"header": 320, "mutex": 216, "mutex_size": 40, "cond": 256, "dirty": 304, "last_seq": 312, "index_cnt": 88, "clock": 136, "name": 16, "entry": 24, "total_4x16": 504},
	"arm64": {"header": 328, "mutex": 216, "mutex_size": 48, "cond": 264, "dirty": 312, "last_seq": 320, "index_cnt": 88, "clock": 136, "name": 16, "entry": 24, "total_4x16": 512},
}

// machine compiles and runs C programs, possibly for another architecture.
type machine struct {
	arch, cc string
	run      []string // command that runs its programs
}

func (m machine) command(bin string, args ...string) *exec.Cmd {
	line := append(append([]string{}, m.run...), append([]string{bin}, args...)...)
	return exec.Command(line[0], line[1:]...)
}

// build compiles a program. It skips the test if the tools for that are missing.
func (m machine) build(t *testing.T, name string, sources ...string) string {
	t.Helper()
	for _, tool := range m.run {
		need.Program(t, tool, "qemu-user")
	}
	return built(t, m.cc, name+"-"+m.arch, append([]string{"-static"}, sources...)...)
}

var (
	host    = machine{arch: runtime.GOARCH, cc: "cc"}
	aarch64 = machine{arch: "arm64", cc: "aarch64-linux-gnu-gcc", run: []string{"qemu-aarch64"}}
)

func (m machine) checkLayout(t *testing.T) {
	want := layouts[m.arch]
	if want == nil {
		t.Skipf("the layout on %s is not known: add it to ach-abi.md and here", m.arch)
	}
	for what, args := range map[string][]string{"ours": {m.build(t, "layout", "testdata/layout.c")}, "the peer": {m.build(t, "peer", peerSources...), "-", "layout"}} {
		got := start(t, m.command(args[0], args[1:]...)).result()
		for field, offset := range want {
			if got[field] != offset {
				t.Errorf("%s: %s: got %v, want %v", what, field, got[field], offset)
			}
		}
	}
}

func TestLayoutOfThisMachine(t *testing.T) { host.checkLayout(t) }

func TestLayoutOfAarch64(t *testing.T) { aarch64.checkLayout(t) }

// Our C code and the C peer share a channel on aarch64, in both directions. The emulator has neither robust lists nor the memory
// order of that architecture, so the test covers only layout and arithmetic.
func TestCPeerSharesChannelOnAarch64(t *testing.T) {
	ourSources, err := filepath.Glob("*.c")
	if err != nil {
		t.Fatal(err)
	}
	ours := aarch64.build(t, "roundtrip", append([]string{"-Wl,--wrap=syscall", "testdata/roundtrip.c"}, ourSources...)...)
	peer := aarch64.build(t, "peer", peerSources...)
	d := privateDir(t)
	run := func(bin, name string, args ...string) map[string]float64 {
		t.Helper()
		return start(t, aarch64.command(bin, append([]string{pathOf(d, name)}, args...)...)).result()
	}

	const count, size = "100", "500"
	for _, creator := range need.LongOr([]string{"ours", "peer"}, []string{"ours"}) {
		bin := map[string]string{"ours": ours, "peer": peer}[creator]
		run(bin, creator, "create", count, size)
		run(peer, creator, "put", count, "64-500", "0", "1")
		if got := run(ours, creator, "get", count, size); got["frames"] != 100 || got["check"] != 0 {
			t.Errorf("made by %s, put by the peer: we got %v", creator, got)
		}
		run(ours, creator, "put", count, size)
		if got := run(peer, creator, "get", "50", "-", "0", fmt.Sprint(firstOwnWriter)); got["got"] != 50 {
			t.Errorf("made by %s, put by us: the peer got %v", creator, got)
		}
	}
	if runtime.GOARCH == "amd64" {
		if _, err := d.Open("ours"); !errors.Is(err, localach.ErrCorrupt) {
			t.Errorf("an aarch64 channel opened on amd64: got %v, want ErrCorrupt", err)
		}
	}
}
