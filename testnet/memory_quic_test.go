package testnet

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

// quicPair connects two hosts; the first dials.
func quicPair(t *testing.T, a, b *Conn) (dialled, accepted *quic.Conn) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"pc"}, NotBefore: now, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, NextProtos: []string{"test"}}
	client := &tls.Config{InsecureSkipVerify: true, ServerName: "pc", NextProtos: []string{"test"}}
	// Path MTU probes would stand between the datagrams.
	config := &quic.Config{EnableDatagrams: true, DisablePathMTUDiscovery: true}

	ta, tb := &quic.Transport{Conn: a}, &quic.Transport{Conn: b}
	listener, err := tb.Listen(server, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); ta.Close(); tb.Close() })
	if dialled, err = ta.Dial(context.Background(), b.LocalAddr(), client, config); err != nil {
		t.Fatal(err)
	}
	if accepted, err = listener.Accept(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.CloseWithError(0, ""); accepted.CloseWithError(0, "") })
	return dialled, accepted
}

// quicDelays sends 50 stamped QUIC datagrams, one every 20 ms, and returns
// their one-way delays.
func quicDelays(t *testing.T, link string, size int) (delays []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t, 1, link)
		from, to := quicPair(t, a, b)
		time.Sleep(time.Second) // let the handshake's last packets pass
		start := time.Now()
		var sender sync.WaitGroup
		sender.Go(func() {
			for range 50 {
				stamped := make([]byte, size)
				binary.BigEndian.PutUint64(stamped, uint64(time.Since(start)))
				if from.SendDatagram(stamped) != nil {
					return
				}
				time.Sleep(20 * ms)
			}
		})
		defer sender.Wait()
		for range 50 {
			got, err := to.ReceiveDatagram(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			delays = append(delays, time.Since(start)-time.Duration(binary.BigEndian.Uint64(got)))
		}
	})
	return delays
}

func TestQUICDatagramsTakeExactlyTheDelay(t *testing.T) {
	for i, d := range quicDelays(t, "delay=10ms", 64) {
		if d != 10*ms {
			t.Errorf("datagram %d: got %v, want 10ms", i, d)
		}
	}
}

func TestQUICDatagramsOnASlowLinkAreRepeatable(t *testing.T) {
	const link = "delay=10ms,rate=1mbit,queue=64KiB"
	first := quicDelays(t, link, 1000)
	// 1000 bytes, at least 20 of QUIC and 28 of UDP and IP, 8 µs each.
	if low, high := slices.Min(first), slices.Max(first); low < 18*ms+48*8*time.Microsecond || high > 19*ms {
		t.Errorf("got %v to %v, want 18.4ms to 19ms", low, high)
	}
	if second := quicDelays(t, link, 1000); !slices.Equal(first, second) {
		t.Errorf("got %v, then %v: want the same", first, second)
	}
}

func TestQUICPacketsLeaveABusyLinkAtExactlyTheModelledTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t, 1, "delay=10ms,rate=1mbit,queue=64KiB")
		from, to := quicPair(t, a, b)
		time.Sleep(time.Second)
		var free time.Duration // the test's own transmitter
		var want, got []time.Duration
		n.Tap(func(e Event) {
			if e.From.Addr() != HostAddr4(0) {
				return
			}
			switch e.What {
			case WhatSent:
				free = max(free, e.At) + time.Duration(len(e.Payload)+Overhead4)*8*time.Microsecond
				want = append(want, free+10*ms)
			case WhatArrived:
				got = append(got, e.At)
			}
		})
		go func() {
			for range 100 {
				if from.SendDatagram(make([]byte, 1000)) != nil {
					return
				}
			}
		}()
		for range 100 {
			if _, err := to.ReceiveDatagram(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(100 * ms)
		n.mu.Lock() // the tap is called under it
		defer n.mu.Unlock()
		if len(got) < 100 || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("got arrivals %v, want %v", got, want)
		}
	})
}
