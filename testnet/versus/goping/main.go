// Command goping does what ends.c does, with plain datagrams of quic-go or UDP. It measures the lowest
// cost of a Go program that sends frames.
//
//	goping write quic:ADDRESS:PORT HZ BYTES [quic:ADDRESS:PORT HZ BYTES]...
//	goping read quic:0.0.0.0:PORT...
//
// With udp: in place of quic:, the datagrams are plain UDP. Frames and records are those of ends.c. Each channel has a
// connection. A frame is split into datagrams and counts as received when its last datagram arrives. Lost
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
	"errors"
	"fmt"
	"math/big"
	"net"
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
	protocol = "goping"
	most     = 1100 // maximum number of bytes in a datagram
	last     = 16   // offset of the byte that is 1 in a frame's last datagram; before it are the frame's number and time
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "goping:", err)
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
		go func() { ended <- write(ctx, channel[0], time.Duration(1e9/rate), size) }()
	}
	return <-ended
}

// write connects, as soon as the other end listens, and sends a frame each period.
func write(ctx context.Context, to string, period time.Duration, size int) error {
	send, err := dial(ctx, to)
	for err != nil && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		send, err = dial(ctx, to)
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
			if err := send(datagram[:max(last+1, min(left, most))]); err != nil && !errors.Is(err, syscall.ECONNREFUSED) { // refused while the other end does not listen yet
				return err
			}
		}
		next = next.Add(period)
		if next.Before(time.Now()) {
			next = time.Now() // skip missed periods
		}
	}
}

// dial returns the function that sends a datagram.
func dial(ctx context.Context, to string) (send func([]byte) error, err error) {
	kind, address, _ := strings.Cut(to, ":")
	if kind == "udp" {
		connection, err := net.Dial("udp", address)
		if err != nil {
			return nil, err
		}
		return func(b []byte) error { _, err := connection.Write(b); return err }, nil
	}
	trusting := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	connection, err := quic.DialAddr(ctx, address, trusting, transport)
	if err != nil {
		return nil, err
	}
	return connection.SendDatagram, nil
}

// records writes a record for each received frame to standard output.
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
		accept, err := listen(place, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}})
		if err != nil {
			return err
		}
		go func() { ended <- r.read(ctx, accept, uint64(number)) }()
	}
	for range places {
		if err := <-ended; ctx.Err() == nil {
			return err
		}
	}
	return r.out.Flush()
}

// receiver blocks for the next datagram and returns it. The datagram is valid until the next call.
type receiver func(context.Context) ([]byte, error)

// listen opens a port. accept waits for the other end and returns its receiver.
func listen(place string, config *tls.Config) (accept func(context.Context) (receiver, error), err error) {
	kind, address, _ := strings.Cut(place, ":")
	if kind == "udp" {
		connection, err := net.ListenPacket("udp", address)
		if err != nil {
			return nil, err
		}
		buffer := make([]byte, 2*most)
		receive := func(ctx context.Context) ([]byte, error) {
			n, _, err := connection.ReadFrom(buffer)
			return buffer[:n], err
		}
		return func(ctx context.Context) (receiver, error) {
			context.AfterFunc(ctx, func() { connection.Close() })
			return receive, nil
		}, nil
	}
	listener, err := quic.ListenAddr(address, config, transport)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (receiver, error) {
		connection, err := listener.Accept(ctx)
		if err != nil {
			return nil, err
		}
		return connection.ReceiveDatagram, nil
	}, nil
}

func (r *records) read(ctx context.Context, accept func(context.Context) (receiver, error), channel uint64) error {
	receive, err := accept(ctx)
	if err != nil {
		return err
	}
	record := make([]byte, 0, 32)
	for {
		datagram, err := receive(ctx)
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
