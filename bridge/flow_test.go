package bridge

import (
	"sync"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet"
)

// flow is one channel of a robot that a PC mirrors. Tests compare the nodes' counters with
// last_seq of both channels in shared memory.
type flow struct {
	*world
	robot, pc *host
	source    *putSource
	data      *channel
	size      int
	copy      *localach.Channel // the mirror
	number    uint64            // number of the newest frame
	before    uint64            // frames of former epochs of the channel
}

const flowName = "robot.data"

// flow starts both nodes and waits until the empty channel is mirrored.
func (w *world) flow(link string, qos rule.QoS, size int) *flow {
	w.t.Helper()
	params := mustParams(w.t, link)
	qos = unpacked(qos)
	f := &flow{world: w, robot: w.host("robot", params), pc: w.host("pc", params), size: size}
	f.source = &putSource{dir: f.robot.dir}
	f.data = f.robot.channel("data", 16, size)
	f.robot.runAt(port, f.source, Config{})
	f.pc.runAt(port, &putSource{dir: f.pc.dir}, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "data", QoS: qos}}})
	f.pc.node.SetPeers(asPeers([]*host{f.robot}))
	w.within(10*time.Second, "mirror", func() bool { return f.pc.mirror(flowName).State == status.MirrorLive })
	var err error
	if f.copy, err = f.pc.dir.Open(flowName); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { f.copy.Close() })
	return f
}

// unpacked switches compression off unless qos has a choice, since test frames would compress to
// almost nothing.
func unpacked(qos rule.QoS) rule.QoS {
	if qos.Compress == rule.CompressAuto {
		qos.Compress = rule.CompressNone
	}
	return qos
}

func mustParams(t *testing.T, text string) testnet.Params {
	t.Helper()
	params, err := testnet.ParseParams(text)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

// put puts the next frame.
func (f *flow) put() {
	f.number++
	f.data.put(f.number, f.size)
	f.source.noticed(f.data.ch)
}

// anew recreates the channel under the same name.
func (f *flow) anew() {
	f.t.Helper()
	f.before += f.data.ch.LastSeq()
	f.data.close()
	if err := f.robot.dir.Unlink("data"); err != nil {
		f.t.Fatal(err)
	}
	f.data = f.robot.channel("data", 16, f.size)
}

// stream puts a frame every period for a while and calls each after every put.
func (f *flow) stream(period, long time.Duration, each func(at time.Duration)) {
	begin := time.Now()
	for at := time.Duration(0); at < long; at += period {
		time.Sleep(time.Until(begin.Add(at)))
		f.put()
		each(at)
	}
	time.Sleep(time.Until(begin.Add(long)))
}

// requalify gives the running mirror another quality of service.
func (f *flow) requalify(qos rule.QoS) {
	f.t.Helper()
	qos = unpacked(qos)
	if err := f.pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "data", QoS: qos}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) change(text string) {
	f.t.Helper()
	f.changeAt("robot", text)
}

// changeAt changes a target of the network.
func (f *flow) changeAt(target, text string) {
	f.t.Helper()
	if err := f.net.Change(target, text); err != nil {
		f.t.Fatal(err)
	}
}

// robotSays and pcSays return the two nodes' counters of the channel.
func (f *flow) robotSays() ledger.FrameCounters {
	for _, e := range f.robot.node.Status().Exports {
		if e.Channel == "data" {
			return e.FrameCounters
		}
	}
	return ledger.FrameCounters{}
}

func (f *flow) pcSays() ledger.FrameCounters { return f.pc.mirror(flowName).FrameCounters }

// puts returns how many frames the robot has put, and kept how many its mirror has.
func (f *flow) puts() uint64 { return f.before + f.data.ch.LastSeq() }
func (f *flow) kept() uint64 { return f.copy.LastSeq() }

// subscription returns the id of the mirror's present subscription.
func (f *flow) subscription() (id uint32) {
	f.pc.node.loop.call(func() { id = f.pc.node.mirrors.byName[flowName].subID })
	return id
}

// holds waits until frame number is the mirror's newest.
func (f *flow) holds(number uint64, limit time.Duration) time.Duration {
	f.t.Helper()
	return f.pc.follows(flowName, number, limit)
}

// inFlow runs run in a world with a flow.
func inFlow(t *testing.T, link string, qos rule.QoS, size int, run func(f *flow)) {
	t.Helper()
	inWorld(t, func(w *world) { run(w.flow(link, qos, size)) })
}

// record reads the mirror while run runs, and returns the frames that arrived.
func (f *flow) record(run func()) []ageSample {
	f.t.Helper()
	r := openAgeReader(f.t, f.pc.dir, flowName)
	defer r.ch.Close()
	begin, ended := time.Now(), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { run(); close(ended) })
	for at := time.Duration(0); ; at += 100 * time.Microsecond {
		time.Sleep(time.Until(begin.Add(at)))
		r.sample(begin, at)
		select {
		case <-ended:
			work.Wait()
			return r.frames
		default:
		}
	}
}
