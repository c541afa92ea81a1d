package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// A load test measures the throughput of a link in one direction. The sender fills the capacity
// that frames leave free (send.Link.Fill). The receiver counts all data that arrives. The host
// that is asked for a test runs one at a time, and allows 10 s a minute in all, for all peers
// together.

const (
	loadEvery  = time.Minute
	loadOften  = 10 * time.Second // total duration of tests in each loadEvery
	loadTime   = 3 * time.Second
	loadBegins = loadTime / 3    // time before the measurement, in which the sender finds the rate
	grantWait  = 3 * time.Second // timeout for the peer's answer
)

// loadTests are the tests that peers were granted in the last loadEvery.
type loadTests []*loadTest

type loadTest struct {
	link       *link
	id         uint32
	begin, end time.Duration
}

// state returns the running test, nil if there is none. left is the time that is left for further
// tests now; in is the delay until it increases.
func (t *loadTests) state(now time.Duration) (running *loadTest, left, in time.Duration) {
	left, in = loadOften, loadEvery
	var kept loadTests
	for _, test := range *t {
		if test.end+loadEvery <= now {
			continue
		}
		kept = append(kept, test)
		left -= test.end - max(test.begin, now-loadEvery)
		in = min(in, test.end+loadEvery-now)
		if now < test.end {
			running = test
		}
	}
	*t = kept
	return running, left, in
}

// noLoadThere is the reason why there is no load test over a link through the hub.
const noLoadThere = "the link goes through a hub: a load test would fill the hub, and measures direct links only"

// loadAsked handles a peer's message about a load test.
func (n *Node) loadAsked(l *link, m wire.Load) {
	running, left, in := n.loads.state(n.now())
	switch {
	case m.Granted:
		l.answered(m.ID, m)
		return
	case m.For == 0:
		if running != nil && running.link == l && running.id == m.ID {
			running.end = n.now()
			l.frames.Fill(0)
		}
		return
	}
	refuse := func(code wire.Code, text string) {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeLoad, Code: code, Text: wire.Text(text)})
	}
	switch {
	case l.overHub():
		refuse(wire.CodeForbidden, noLoadThere)
	case n.cfg.NoLoadTest:
		refuse(wire.CodeForbidden, fmt.Sprintf("%s allows no load tests: its configuration has load_test: false", n.cfg.Host))
	case running != nil:
		refuse(wire.CodeLimit, fmt.Sprintf("%s has a load test with %s going on: try again in %.0f s", n.cfg.Host, running.link.host, (running.end-n.now()).Seconds()+1))
	case left < m.For:
		refuse(wire.CodeLimit, fmt.Sprintf("%s allows %v of load tests a minute, and they are used up: try again in %.0f s", n.cfg.Host, loadOften, in.Seconds()+1))
	default:
		n.cfg.Log.Info("load test", "peer", l.host, "sends", !m.Up, "for", m.For)
		n.loads = append(n.loads, &loadTest{link: l, id: m.ID, begin: n.now(), end: n.now() + m.For})
		if !m.Up {
			l.frames.Fill(m.For)
		}
		l.send(wire.Load{ID: m.ID, For: m.For, Up: m.Up, Granted: true})
	}
}

// Direction is the direction of a load test.
type Direction bool

// The directions.
const (
	Down Direction = false // from the other host to this one
	Up   Direction = true
)

// LoadTest measures for 3 s the throughput of the link with a host in one direction. The error
// is the reason why there is no test, for example a refusal; it is fs.ErrNotExist without a link.
func (n *Node) LoadTest(ctx context.Context, host string, way Direction) (r status.Load, err error) {
	granted := make(chan wire.Message, 1)
	var l *link
	var id uint32
	n.loop.call(func() {
		switch {
		case n.linkOf(host) == nil:
			err = n.noLink(host)
		case n.linkOf(host).overHub():
			err = errors.New(noLoadThere)
		case n.cfg.NoLoadTest:
			err = errors.New("the configuration of this host has load_test: false")
		default:
			l = n.linkOf(host)
			id = l.ask(granted)
			l.send(wire.Load{ID: id, For: loadTime, Up: bool(way)})
		}
	})
	if l == nil {
		return r, err
	}
	defer n.loop.call(func() { delete(l.queries.answers, id) })
	if err := awaitGrant(ctx, l, granted); err != nil {
		return r, err
	}
	if way == Up {
		l.frames.Fill(loadTime)
	}
	defer func() {
		if err != nil {
			l.frames.Fill(0)
			l.send(wire.Load{ID: id})
		}
	}()
	return l.measureLoad(ctx, way)
}

// awaitGrant waits until the peer grants a test. It returns the reason if the peer does not.
func awaitGrant(ctx context.Context, l *link, granted chan wire.Message) error {
	t := time.NewTimer(grantWait)
	defer t.Stop()
	var m wire.Message
	select {
	case m = <-granted:
	case <-t.C:
		return errors.New(l.unanswered())
	case <-l.s.Done():
		return fmt.Errorf("the link to %s has ended", l.host)
	case <-ctx.Done():
		return ctx.Err()
	}
	if refused, ok := m.(wire.Refused); ok {
		return errors.New(refused.Text)
	}
	return nil
}

// measureLoad measures a running load test.
func (l *link) measureLoad(ctx context.Context, way Direction) (r status.Load, err error) {
	count := l.frames.Received
	if way == Up {
		count = l.frames.Sent
	}
	pause(ctx, loadBegins)
	before := count()
	pause(ctx, loadTime-loadBegins)
	after := count()
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case l.s.Err() != nil:
		return r, fmt.Errorf("the link to %s has ended", l.host)
	}
	s, packets := (after.At - before.At).Seconds(), float64(after.Packets-before.Packets)
	bytes, lost := float64(after.Bytes-before.Bytes)+float64(after.Datagrams-before.Datagrams)*delivery.HeaderBytes, float64(after.Lost)-float64(before.Lost)
	r = status.Load{
		Host: l.host, Up: bool(way), Transport: l.s.Transport(), Seconds: s,
		Mbit: bytes * 8 / 1e6 / s, LoadMbit: float64(after.Load-before.Load) * 8 / 1e6 / s,
	}
	switch {
	case packets == 0 || lost <= 0:
	case way == Up: // packets is the number sent, including the lost ones
		r.Lost = min(1, lost/packets)
		r.Mbit *= 1 - r.Lost
	default:
		r.Lost = lost / (packets + lost)
	}
	return r, nil
}
