package transport

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet"
)

// SCTP must add almost no loss, delay or packets to datagrams on a path.
func TestSCTPAddsLittleToPath(t *testing.T) {
	const (
		size  = 1150
		every = 600 * time.Microsecond // 16.3 Mbit/s on the wire
		span  = 2 * time.Second
		count = int(span / every)
	)
	for _, c := range []struct {
		name, link string
		oldest     time.Duration // one way, transmission included
		missing    int
		words      int // packets of the sender that are no datagram
	}{
		{"Clean", "delay=1ms,rate=20mbit,queue=128KiB", 1510 * time.Microsecond, 0, 25},
		{"Loss1%", "delay=10ms,rate=50mbit,loss=1%", 10210 * time.Microsecond, count / 50, 80},
		{"Loss5%", "delay=10ms,rate=50mbit,loss=5%", 10210 * time.Microsecond, count / 12, 100},
		{"Overtaking", "delay=10ms,jitter=5ms,reorder=20%,rate=50mbit", 26 * time.Millisecond, 0, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				robot, pc, net := onTestnet(t, c.link)
				words := 0
				net.Tap(func(e testnet.Event) {
					if e.What == testnet.WhatSent && e.From.Addr() == testnet.HostAddr4(0) && len(e.Payload) < size {
						words++
					}
				})
				ages := collectAges(t, robot, pc, every, span, size)
				if got := count - len(ages); got > c.missing {
					t.Errorf("datagrams missing: got %d of %d, want at most %d", got, count, c.missing)
				}
				for _, age := range ages {
					if age > c.oldest {
						t.Fatalf("age on arrival: got %v, want at most %v", age, c.oldest)
					}
				}
				if words > c.words {
					t.Errorf("packets beside the datagrams: got %d, want at most %d", words, c.words)
				}
			})
		})
	}
}

// onTestnet joins two nodes over a link that testnet emulates.
func onTestnet(t *testing.T, link string) (robot, pc *session.Session, n *testnet.Network) {
	params, err := testnet.ParseParams(link)
	if err != nil {
		t.Fatal(err)
	}
	n = testnet.NewNetwork(1)
	key := trust.NewKey()
	var ends []*Endpoint
	for _, host := range []string{"robot", "pc"} {
		conn, err := n.Host(host, params).Listen(8077)
		if err != nil {
			t.Fatal(err)
		}
		e, err := listenOverSCTP(conn, Config{Key: key, Node: nodeOf(host), Host: host})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		ends = append(ends, e)
	}
	if pc, err = ends[1].Dial(t.Context(), ends[0].LocalAddrs()); err != nil {
		t.Fatal(err)
	}
	if robot, err = ends[0].Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	return robot, pc, n
}

// collectAges sends a datagram every period, and returns how old each was on arrival.
func collectAges(t *testing.T, from, to *session.Session, every, span time.Duration, size int) (ages []time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	go func() {
		for {
			d, err := to.ReceiveDatagram(ctx)
			if err != nil {
				return
			}
			ages = append(ages, time.Since(start)-time.Duration(binary.BigEndian.Uint64(d)))
		}
	}()
	b := make([]byte, size)
	for at := time.Duration(0); at <= span-every; at += every {
		time.Sleep(time.Until(start.Add(at)))
		binary.BigEndian.PutUint64(b, uint64(time.Since(start)))
		if err := from.SendDatagram(b); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	cancel()
	synctest.Wait()
	return ages
}
