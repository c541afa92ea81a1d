package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet"
)

// bench is one run of a scenario: sending nodes on one host, which share its link, and one node
// that mirrors all their channels.
type bench struct {
	*world
	s        scenario
	seed     uint64
	params   testnet.Params
	senders  []*host
	sources  []*putSource
	pc       *host
	phases   []time.Duration // phase of each load
	losses   []loss
	lateKept map[string]uint64 // late_kept of the mirrors, at the end
	made     time.Time         // the network's time zero
	zero     time.Duration     // the first frame's time, by the network's clock
	carried  int               // bytes that arrived from the first sender's host during the measurement
	shares   [3]int            // bytes carried for each sender
}

// loss is a packet from the senders that the link lost.
type loss struct {
	at   time.Duration // since the first frame
	size int
}

// run measures one scenario with one seed.
func (s scenario) run(t *testing.T, seed uint64) (readers []*ageReader, b *bench) {
	params, err := testnet.ParseParams(s.link)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b = &bench{s: s, seed: seed, params: params, world: &world{t: t, net: testnet.NewNetwork(seed), key: trust.NewKey()}, made: time.Now()}
		random := rand.New(rand.NewPCG(seed, 1))
		for _, l := range s.loads {
			b.phases = append(b.phases, time.Duration(random.Int64N(int64(l.period))))
		}
		readers = b.measure()
	})
	return readers, b
}

func (b *bench) measure() (readers []*ageReader) {
	channels := b.connect()
	for _, l := range b.s.loads {
		r := openAgeReader(b.t, b.pc.dir, b.mirrorOf(l))
		defer r.ch.Close()
		readers = append(readers, r)
	}
	time.Sleep(time.Until(b.made.Add(b.s.zero)))
	begin, end := time.Now(), warmUp+b.s.span()
	b.zero = begin.Sub(b.made)
	b.tap(begin)
	var work sync.WaitGroup
	defer work.Wait()
	for i, l := range b.s.loads {
		work.Go(func() { l.write(channels[i], b.sources[l.node], begin.Add(b.phases[i]), end) })
	}
	work.Go(func() {
		for _, c := range b.s.changes {
			time.Sleep(time.Until(begin.Add(c.at)))
			if err := b.net.Change("", c.text); err != nil {
				b.t.Error(err)
			}
		}
	})
	if b.s.beside != nil {
		work.Go(func() { b.s.beside(b, begin.Add(end)) })
	}
	for at := time.Duration(0); at < end; at += b.s.step() {
		time.Sleep(time.Until(begin.Add(at)))
		for _, r := range readers {
			r.sample(begin, at)
		}
	}
	b.lateKept = map[string]uint64{}
	for _, m := range b.pc.node.Status().Mirrors {
		b.lateKept[m.Name] = m.LateKept
	}
	return readers
}

func (b *bench) mirrorOf(l load) string { return b.senders[l.node].name + "." + l.channel }

func (s scenario) span() time.Duration { return cmp.Or(s.length, 8*second) }
func (s scenario) step() time.Duration { return cmp.Or(s.readEvery, 241*time.Microsecond) }

// connect starts the nodes, and returns the loads' channels when all are mirrored. The channels
// exist before the node starts, since putSource rarely looks for new ones.
func (b *bench) connect() (channels []*channel) {
	names := []string{"robot", "drone", "arm"}[:1+slices.MaxFunc(b.s.loads, func(x, y load) int { return x.node - y.node }).node]
	for i, name := range names {
		h := b.host(name, b.params)
		h.over = b.s.over
		if i > 0 && b.params.Wifi == "" { // with Wi-Fi each sender has its own station
			h.net, h.number = b.senders[0].net, b.senders[0].number // both share one egress
		}
		b.senders, b.sources = append(b.senders, h), append(b.sources, &putSource{dir: h.dir})
	}
	for _, l := range b.s.loads {
		channels = append(channels, b.senders[l.node].channel(l.channel, 16, l.size))
	}
	b.pc = b.host("pc", b.params.Back())
	b.pc.over = b.s.over
	var mirrors []rule.Mirror
	var peers []Peer
	for i, h := range b.senders {
		h.runAt(port+i, b.sources[i], Config{testing: testConfig{control: b.s.control}})
		for _, l := range b.s.loads {
			if l.node == i {
				mirrors = append(mirrors, rule.Mirror{Host: h.name, Channel: l.channel, QoS: l.qos})
			}
		}
		at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(testnet.HostAddr4(h.number), uint16(port+i)))
		peers = append(peers, Peer{Host: h.name, Node: h.id.String(), Addrs: []transport.Addrs{{QUIC: at, SCTP: at}}, Static: true})
	}
	b.pc.runAt(port, &putSource{dir: b.pc.dir}, Config{Mirrors: mirrors})
	b.pc.node.SetPeers(peers)
	for _, l := range b.s.loads {
		b.within(10*second, b.mirrorOf(l), func() bool { return b.pc.mirror(b.mirrorOf(l)).State == status.MirrorLive })
	}
	return channels
}

// runAt is like run, with the given port and source.
func (h *host) runAt(port int, source Source, cfg Config) {
	h.w.t.Helper()
	conn, err := h.net.Listen(port)
	if err != nil {
		h.w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(h.log, nil))
	tc := transport.Config{Key: h.w.key, Node: h.id, Host: h.name, Log: log, ResetSecret: sha256.Sum256(h.id[:])}
	var quic net.PacketConn = conn
	if h.over == "sctp" {
		quic, tc.SCTP = nil, conn
	}
	end, err := transport.Listen(quic, tc)
	if err != nil {
		h.w.t.Fatal(err)
	}
	cfg.testing.suspended = func() time.Duration { return time.Duration(h.slept.Load()) }
	cfg.Host, cfg.Node, cfg.Dir, cfg.Source, cfg.Endpoint, cfg.Log = h.name, h.id, h.dir, source, end, log
	if h.node, err = New(cfg); err != nil {
		h.w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { h.node.Run(ctx) })
	h.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
		end.Close()
	})
	h.w.t.Cleanup(h.stop)
}

// write puts frames until end.
func (l load) write(c *channel, source *putSource, begin time.Time, end time.Duration) {
	for number := uint64(1); ; number++ {
		at := l.start + time.Duration(number-1)*l.period
		if at >= end || l.once && number > 1 {
			return
		}
		time.Sleep(time.Until(begin.Add(at)))
		c.put(number, l.size)
		source.noticed(c.ch)
	}
}

// tap records the senders' lost packets, and counts those that arrive.
func (b *bench) tap(begin time.Time) {
	offset := time.Duration(-1)
	from, pc := testnet.HostAddr4(b.senders[0].number), testnet.HostAddr4(b.pc.number)
	b.net.Tap(func(e testnet.Event) {
		if offset < 0 {
			offset = time.Since(begin) - e.At
		}
		if at := e.At + offset; e.What == testnet.WhatArrived && e.From.Addr() == from && at >= warmUp && at < warmUp+b.s.span() {
			b.carried += len(e.Payload) + testnet.Overhead4
		}
		if at := e.At + offset; e.What == testnet.WhatArrived && e.To.Addr() == pc && at >= warmUp && at < warmUp+b.s.span() && int(e.From.Port()) < port+len(b.shares) {
			b.shares[int(e.From.Port())-port] += len(e.Payload) + testnet.Overhead4
		}
		if e.What == testnet.WhatSent && e.From.Addr() == from && e.Sent.Outcome == testnet.Lost {
			b.losses = append(b.losses, loss{e.At + offset, len(e.Payload)})
		}
	})
}

// putSource is a Source that every put notifies, like a watcher with a period of zero. The real
// watcher adds up to its period to every age.
type putSource struct {
	dir    localach.Dir
	mu     sync.Mutex
	next   int
	notify map[string]map[int]func(uint64)
}

func (s *putSource) Changes(ctx context.Context, f func(localach.Event)) error {
	known := map[string]bool{}
	for ; ctx.Err() == nil; pause(ctx, second) {
		list, err := s.dir.List()
		if err != nil {
			return err
		}
		for _, c := range list {
			if !known[c.Name] {
				known[c.Name] = true
				f(localach.Event{Kind: localach.Appeared, Name: c.Name})
			}
		}
	}
	return nil
}

func (s *putSource) LastPoll() time.Time { return time.Now() }

func (s *putSource) NewData(ch *localach.Channel, f func(uint64)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notify == nil {
		s.notify = map[string]map[int]func(uint64){}
	}
	if s.notify[ch.Name()] == nil {
		s.notify[ch.Name()] = map[int]func(uint64){}
	}
	s.next++
	id := s.next
	s.notify[ch.Name()][id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.notify[ch.Name()], id)
	}
}

// noticed reports the newest frame. It calls the functions without the lock, since stop takes it
// too.
func (s *putSource) noticed(ch *localach.Channel) {
	var notify []func(uint64)
	s.mu.Lock()
	for _, f := range s.notify[ch.Name()] {
		notify = append(notify, f)
	}
	s.mu.Unlock()
	for _, f := range notify {
		f(ch.LastSeq())
	}
}
