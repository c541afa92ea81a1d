package localach

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -pthread
#cgo noescape ach_get
#cgo nocallback ach_get
#cgo noescape ach_put
#cgo nocallback ach_put
#cgo noescape ach_flush
#cgo nocallback ach_flush
#cgo noescape ach_last_seq
#cgo nocallback ach_last_seq
#cgo noescape ach_set_tag
#cgo nocallback ach_set_tag
#cgo noescape ach_get_tag
#cgo nocallback ach_get_tag
#cgo nocallback ach_wait_newer
#cgo nocallback ach_wake
#cgo nocallback ach_check
#include "ach.h"
*/
import "C"

import (
	"encoding/binary"
	"time"
	"unsafe"
)

// Sizes of the file's parts, which depend on the architecture.
const (
	headerBytes = C.sizeof_struct_ach_header
	entryBytes  = C.sizeof_struct_ach_entry
	emptyBytes  = headerBytes + 3*8 // the three guards
	mutexOffset = C.offsetof_mutex
	condOffset  = C.offsetof_cond
)

// status is the result of a C function: a number of libach, or one of our own from 32.
type status int32

const (
	statusOK       status = C.ACH_OK
	statusOverflow status = C.ACH_OVERFLOW
	statusStale    status = C.ACH_STALE
	statusMissed   status = C.ACH_MISSED
	statusEmpty    status = C.ACH_EINVAL
	statusMoved    status = C.ACH_MOVED
	statusBusy     status = C.ACH_BUSY
	statusDirty    status = C.ACH_DIRTY
	statusReinit   status = C.ACH_REINIT
	statusForeign  status = C.ACH_FOREIGN
	statusFault    status = C.ACH_FAULT
	statusHole     status = C.ACH_HOLE
	statusNoFile   status = C.ACH_NO_FILE
	statusWedged   status = C.ACH_WEDGED

	statusShrunk = statusReinit | C.ACH_WHY_LEN<<8 // initialised again with fewer bytes than are mapped
)

// code returns the status without the number of the bad field.
func (s status) code() status { return s & 0xff }

// badField returns the name of the header field that is wrong, or "".
func (s status) badField() string {
	if why := int(s >> 8); why > 0 && why < len(badFields) {
		return badFields[why]
	}
	return ""
}

var badFields = [C.ACH_WHY_COUNT]string{
	C.ACH_WHY_MAGIC:        "magic",
	C.ACH_WHY_LEN:          "len",
	C.ACH_WHY_GUARD_HEADER: "guard behind the header",
	C.ACH_WHY_GUARD_INDEX:  "guard behind the index",
	C.ACH_WHY_GUARD_DATA:   "guard behind the data",
	C.ACH_WHY_INDEX_HEAD:   "index_head",
	C.ACH_WHY_INDEX_FREE:   "index_free",
	C.ACH_WHY_DATA_HEAD:    "data_head",
	C.ACH_WHY_DATA_FREE:    "data_free",
	C.ACH_WHY_LAST_SEQ:     "last_seq",
	C.ACH_WHY_ENTRY_SIZE:   "size of an index entry",
	C.ACH_WHY_ENTRY_OFFSET: "offset of an index entry",
	C.ACH_WHY_ENTRY_SEQ:    "seq_num of an index entry",
	C.ACH_WHY_MUTEX:        "mutex",
}

// Options of get.
const (
	optLast   = C.ACH_OPT_LAST
	optCopy   = C.ACH_OPT_COPY
	optTry    = C.ACH_OPT_TRY
	optLocked = C.ACH_OPT_LOCKED
)

// mapping is the memory of one channel for the C functions. The caller must keep it mapped.
type mapping struct{ c C.struct_ach_map }

func mappingOf(memory []byte, g Geometry, k kind) mapping {
	return mapping{C.struct_ach_map{
		base:      C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))),
		len:       C.uint64_t(g.bytes()),
		index_cnt: C.uint64_t(g.FrameCount),
		data_size: C.uint64_t(g.FrameCount) * C.uint64_t(g.FrameSize),
		splits:    flag(k.ach1x),
		lockless:  flag(k.plainLock),
	}}
}

func flag(set bool) C.int32_t {
	if set {
		return 1
	}
	return 0
}

// readsLockless reports whether localach can read a channel without its lock on this architecture.
func readsLockless() bool { return C.ach_reads_lockless() != 0 }

// position is a reader's place in the ring.
type position struct{ c C.struct_ach_reader }

// newPosition returns the position of a new handle of libach: no frame seen, entry 1 expected.
func newPosition() position { return position{C.struct_ach_reader{next_index: 1}} }

// positionAfter returns the position of a reader that has seen frame seq.
func positionAfter(seq uint64) position {
	return position{C.struct_ach_reader{next_index: 1, seq: C.uint64_t(seq)}}
}

func (p *position) seq() uint64    { return uint64(p.c.seq) }
func (p *position) size() int      { return int(p.c.size) }
func (p *position) missed() uint64 { return uint64(p.c.missed) }

// skip moves the reader past the frame that the last get found but did not copy.
func (p *position) skip() {
	if p.c.found > p.c.seq {
		p.c.missed = p.c.found - p.c.seq - 1
		p.c.seq = p.c.found
	}
}

func (m *mapping) get(p *position, buf []byte, options, fd int32) status {
	return status(C.ach_get(&m.c, &p.c, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf)), C.int(options), C.int(fd)))
}

func (m *mapping) flush(p *position) status { return status(C.ach_flush(&m.c, &p.c)) }

// putResult is the result of a put. The writer keeps it, so that a put allocates nothing.
type putResult struct{ c C.struct_ach_put }

// setAfter makes later puts succeed only if the newest frame has number last.
func (r *putResult) setAfter(last uint64) { r.c.only, r.c.after = 1, C.uint64_t(last) }

// setAlways undoes setAfter.
func (r *putResult) setAlways() { r.c.only = 0 }

func (m *mapping) put(r *putResult, frame []byte, limit time.Duration) status {
	r.c.limit_ns = C.int64_t(limit)
	return status(C.ach_put(&m.c, &r.c, unsafe.Pointer(unsafe.SliceData(frame)), C.size_t(len(frame))))
}

func (m *mapping) lastSeq() (uint64, status) {
	var seq C.uint64_t
	s := status(C.ach_last_seq(&m.c, &seq))
	return uint64(seq), s
}

func (m *mapping) largest() (int, status) {
	var bytes C.uint64_t
	s := status(C.ach_largest(&m.c, &bytes))
	return int(bytes), s
}

// waitNewer blocks its thread until last_seq differs from seq, or wait has passed.
func (m *mapping) waitNewer(seq uint64, wait, period time.Duration) status {
	return status(C.ach_wait_newer(&m.c, C.uint64_t(seq), C.int64_t(wait), C.int64_t(period)))
}

// WakesReaders reports whether puts of this program wake readers that wait on a channel's condition variable. They do not if the
// layout of these variables in this program's C library is unknown. Readers with a time limit then wait until it is over.
func WakesReaders() bool { return C.ach_cond_known() != 0 }

// KilledReaderHangsPuts reports whether this C library is one with which a killed reader can make puts hang. With glibc up to 2.40,
// a put of a program linked with libach can hang after a process was killed while it waited on the channel's condition variable.
func KilledReaderHangsPuts() bool { return C.ach_cond_hangs() != 0 }

// wake wakes the readers that wait. It blocks its thread for up to 10 ms. statusWedged means that it could not wake all.
func (m *mapping) wake() status   { return status(C.ach_wake(&m.c)) }
func (m *mapping) poison() status { return status(C.ach_poison(&m.c)) }
func (m *mapping) check() status  { return status(C.ach_check(&m.c)) }

func (m *mapping) init(name string) status {
	var text [maxName + 1]C.char
	for i := range len(name) {
		text[i] = C.char(name[i])
	}
	return status(C.ach_init(&m.c, &text[0]))
}

func (m *mapping) stat() (Stat, status) {
	var s C.struct_ach_stat
	if code := status(C.ach_get_stat(&m.c, &s)); code != statusOK {
		return Stat{}, code
	}
	return Stat{
		LastSeq:     uint64(s.last_seq),
		Frames:      int(s.frames),
		Dirty:       s.dirty != 0,
		LockOwner:   int(s.owner),
		Waiters:     int(s.waiters),
		Waking:      s.waking != 0,
		ForeignCond: s.foreign_cond != 0,
	}, statusOK
}

func (m *mapping) tag() (Tag, status) {
	last, code := m.lastSeq() // read first, so that a put in between is not counted as ours
	if code != statusOK {
		return Tag{}, code
	}
	var t C.struct_ach_tag
	if code = status(C.ach_get_tag(&m.c, &t)); code != statusOK {
		return Tag{}, code
	}
	return tagOf(&t, last), statusOK
}

func tagOf(t *C.struct_ach_tag, last uint64) Tag {
	if t.magic != C.ACH_TAG_MAGIC {
		return Tag{}
	}
	if t.end != 0 {
		last = min(last, uint64(t.end)-1)
	}
	tag := Tag{Channel: uint64(t.channel), Epoch: uint64(t.epoch), Seq: uint64(t.ahead) + last}
	for i := range tag.Node {
		tag.Node[i] = byte(t.node[i])
	}
	return tag
}

func (m *mapping) setTag(tag Tag, puts uint64) status {
	var t C.struct_ach_tag
	if tag != (Tag{}) {
		t = C.struct_ach_tag{magic: C.ACH_TAG_MAGIC, channel: C.uint64_t(tag.Channel), epoch: C.uint64_t(tag.Epoch), ahead: C.uint64_t(tag.Seq - puts), end: C.uint64_t(puts + 1)}
		for i, b := range tag.Node {
			t.node[i] = C.uint8_t(b)
		}
	}
	return status(C.ach_set_tag(&m.c, &t))
}

// header is the beginning of a file, read before the file is mapped. Its values are not checked.
type header struct {
	magic                   uint32
	len, indexCnt, dataSize uint64
	lastSeq                 uint64
	tag                     Tag
	kind                    kind // set by readHeader
}

const headerMagic = C.ACH_MAGIC

func parseHeader(b *[headerBytes]byte) header {
	var h C.struct_ach_header // an aligned copy
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), headerBytes), b[:])
	var layout C.struct_ach_layout
	C.ach_layout(&h, &layout)
	return header{uint32(h.magic), uint64(h.len), uint64(layout.index_cnt), uint64(layout.data_size), uint64(h.last_seq), tagOf(&layout.tag, uint64(h.last_seq)), kind{}}
}

func isMagic(b [4]byte) bool { return binary.NativeEndian.Uint32(b[:]) == headerMagic }
