// Command quicping does what ends.c does, with plain datagrams of quic-go: it measures the
// lowest cost of a program that sends over QUIC.
//
//	quicping write udp:ADDRESS:PORT HZ BYTES [udp:ADDRESS:PORT HZ BYTES]...
//	quicping read udp:0.0.0.0:PORT...
//
// Arguments, frames and records are those of ends.c. Each channel has a connection. A frame
// is split into datagrams and counts as received when its last datagram arrives. Lost
// datagrams are not retransmitted, and frames are not reassembled.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

var transport = &quic.Config{EnableDatagrams: true, KeepAlivePeriod: time.Second}

const (
	protocol = "quicping"
	most     = 1100 // maximum number of bytes in a datagram
	last     = 16   // offset of the mark of a frame's last datagram, after number and time
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "quicping:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 1 && args[0] == "read":
		return readAll(ctx, args[1:])
	case len(args) > 1 && args[0] == "write" && len(args)%3 == 1:
		return writeAll(ctx, args[1:])
	}
	return fmt.Errorf("usage: see main.go")
}

func writeAll(ctx context.Context, args []string) error {
	ended := make(chan error)
	for channel := range slices.Chunk(args, 3) {
		rate, err := strconv.ParseFloat(channel[1], 64)
		if err != nil {
			return err
		}
		size, err := strconv.Atoi(channel[2])
		if err != nil {
			return err
		}
		if size <= last {
			return fmt.Errorf("%d bytes are too few for a frame: at least %d", size, last+1)
		}
		go func() { ended <- write(ctx, address(channel[0]), time.Duration(1e9/rate), size) }()
	}
	return <-ended
}

// write connects, as soon as the other end listens, and sends a frame each period.
func write(ctx context.Context, to string, period time.Duration, size int) error {
	trusting := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	connection, err := quic.DialAddr(ctx, to, trusting, transport)
	for err != nil && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		connection, err = quic.DialAddr(ctx, to, trusting, transport)
	}
	if err != nil {
		return err
	}
	datagram := make([]byte, min(size, most))
	rand.Read(datagram)
	next := time.Now()
	for number := uint64(1); ; number++ {
		time.Sleep(time.Until(next))
		binary.LittleEndian.PutUint64(datagram, number)
		binary.LittleEndian.PutUint64(datagram[8:], now())
		for left := size; left > 0; left -= most {
			datagram[last] = 0
			if left <= most {
				datagram[last] = 1
			}
			if err := connection.SendDatagram(datagram[:max(last+1, min(left, most))]); err != nil {
				return err
			}
		}
		next = next.Add(period)
		if next.Before(time.Now()) {
			next = time.Now() // skip missed periods
		}
	}
}

// records goes to standard output.
type records struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func readAll(ctx context.Context, places []string) error {
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	r := &records{out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	ended := make(chan error)
	for number, place := range places {
		listener, err := quic.ListenAddr(address(place), &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}}, transport)
		if err != nil {
			return err
		}
		go func() { ended <- r.read(ctx, listener, uint64(number)) }()
	}
	for range places {
		if err := <-ended; ctx.Err() == nil {
			return err
		}
	}
	return r.out.Flush()
}

func (r *records) read(ctx context.Context, listener *quic.Listener, channel uint64) error {
	connection, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	record := make([]byte, 0, 32)
	for {
		datagram, err := connection.ReceiveDatagram(ctx)
		if err != nil {
			return err
		}
		if datagram[last] == 0 {
			continue
		}
		record = binary.LittleEndian.AppendUint64(record[:0], channel)
		record = append(record, datagram[:16]...)
		record = binary.LittleEndian.AppendUint64(record, now())
		r.mu.Lock()
		_, err = r.out.Write(record)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// address returns the text after "udp:".
func address(place string) string { return strings.TrimPrefix(place, "udp:") }

// now returns the time of CLOCK_MONOTONIC, which the frames' stamps use.
func now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return uint64(t.Nano())
}

func selfSigned() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
