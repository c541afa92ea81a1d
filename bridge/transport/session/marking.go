package session

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/bridge/via"
)

// Marking records whether the kernel refuses to mark packets with a DSCP. All sockets of an Endpoint share it. Safe for
// concurrent use.
type Marking struct {
	log     *slog.Logger
	refusal atomic.Pointer[error]
}

// NewMarking returns a Marking that logs to log when the kernel refuses a mark.
func NewMarking(log *slog.Logger) *Marking { return &Marking{log: log} }

// Err returns the error with which the kernel refused a mark, or nil while packets may have marks.
func (m *Marking) Err() error {
	if err := m.refusal.Load(); err != nil {
		return *err
	}
	return nil
}

// Retry handles err, the result of sending a packet with a mark. If the mark may be the reason for the error, Retry calls plain,
// which sends the packet without it. If that succeeds, Err is not nil from then on, so that no more packets get a mark. Retry
// returns the final result for the packet.
func (m *Marking) Retry(err error, plain func() error) error {
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if err := plain(); err != nil {
		return err
	}
	if m.refusal.CompareAndSwap(nil, &err) {
		m.log.Warn("cannot mark packets with a DSCP, sending them without", "err", err)
	}
	return nil
}

// AppendMark appends the control messages of oob to b, and sets the DSCP d in them for a packet to an address. It
// keeps the ECN bits of oob.
func AppendMark(b, oob []byte, to netip.Addr, d via.DSCP) []byte {
	level, kind := int32(unix.IPPROTO_IPV6), int32(unix.IPV6_TCLASS)
	if to.Unmap().Is4() {
		level, kind = unix.IPPROTO_IP, unix.IP_TOS
	}
	start := len(b)
	b = append(b, oob...)
	for rest := b[start:]; len(rest) > 0; {
		header, data, remainder, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		if header.Level == level && header.Type == kind {
			addMark(data, d)
			return b
		}
		rest = remainder
	}
	const size = 4 // bytes of data in the control message of either IP version
	start = len(b)
	b = append(b, make([]byte, unix.CmsgSpace(size))...)
	header := (*unix.Cmsghdr)(unsafe.Pointer(&b[start]))
	header.Level, header.Type = level, kind
	header.SetLen(unix.CmsgLen(size))
	addMark(b[start+unix.CmsgLen(0):][:size], d)
	return b
}

// addMark sets the upper six bits of the traffic class in a message's data, which is one byte or an int.
func addMark(data []byte, d via.DSCP) {
	if len(data) == 1 {
		data[0] |= byte(d) << 2
		return
	}
	binary.NativeEndian.PutUint32(data, binary.NativeEndian.Uint32(data)|uint32(d)<<2)
}
