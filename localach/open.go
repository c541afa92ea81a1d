package localach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// halfCreatedFor is how long Open waits for a creator. libach writes a channel in place, with its magic last.
const halfCreatedFor = 100 * time.Millisecond

// Open opens an existing channel and maps it. Reading also needs write permission (fs.ErrPermission), since the lock is in the
// file. Open waits up to 100 ms for a file that is being created (ErrHalfCreated). It returns fs.ErrNotExist for a missing
// file, and an error that wraps ErrCorrupt for a bad one.
//
// A channel of Ach 1.x gives ErrReadOnly: use OpenToRead.
func (d Dir) Open(name string) (*Channel, error) { return waitOpen(d.TryOpen, name) }

// OpenToRead opens a channel like Open. It also opens channels of Ach 1.x if they can be read safely. Writing into these gives
// ErrReadOnly.
func (d Dir) OpenToRead(name string) (*Channel, error) { return waitOpen(d.TryOpenToRead, name) }

func waitOpen(tryOpen func(string) (*Channel, error), name string) (*Channel, error) {
	for pause, waited := time.Millisecond, time.Duration(0); ; pause *= 2 {
		c, err := tryOpen(name)
		unready := errors.Is(err, ErrHalfCreated) || errors.Is(err, ErrTruncated)
		if !unready || waited+pause > halfCreatedFor {
			return c, err
		}
		time.Sleep(pause)
		waited += pause
	}
}

// TryOpen opens an existing channel like Open, but does not wait: for a file that is being created it returns ErrHalfCreated or
// ErrTruncated, and the caller can try again later.
func (d Dir) TryOpen(name string) (*Channel, error) { return d.open(name, false) }

// TryOpenToRead opens a channel like OpenToRead, but does not wait, like TryOpen.
func (d Dir) TryOpenToRead(name string) (*Channel, error) { return d.open(name, true) }

// Reopen opens the file that has the channel's name now, with the same function as c, but without waiting. If that is c's file,
// initialised again in place (ErrReinitialised), the new channel's Epoch differs from c's. c stays open.
func (c *Channel) Reopen() (*Channel, error) {
	return c.reopen(errors.Is(c.Check(), ErrReinitialised))
}

// ReopenReinitialised calls Reopen for a channel whose file was half created at the last check. If it is the same file, it
// counts as initialised again. c may be closed.
func (c *Channel) ReopenReinitialised() (*Channel, error) { return c.reopen(true) }

func (c *Channel) reopen(reinitialised bool) (*Channel, error) {
	n, err := c.dir.open(c.name, c.toRead)
	if err != nil || !n.file.sameFile(c.file) {
		return n, err
	}
	n.reinits = c.reinits
	if reinitialised {
		n.reinits++
	}
	n.epoch = n.file.epoch(n.reinits)
	return n, nil
}

func (d Dir) open(name string, toRead bool) (*Channel, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	file, err := d.openFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h, geom, err := readHeader(file, name)
	if err == nil && h.kind.ach1x && !toRead {
		err = ErrReadOnly
	}
	if err != nil {
		return nil, describeFailure(name, err)
	}
	c, err := d.mapFile(name, geom, file, h.kind)
	if err != nil {
		return nil, describeFailure(name, err)
	}
	c.toRead = toRead
	if s := c.m.check(); s.code() != statusOK && s.code() != statusDirty {
		c.Close()
		return nil, c.err(s)
	}
	return c, nil
}

func (d Dir) openFile(name string) (*os.File, error) {
	// With O_NONBLOCK, opening does not hang if the file is a FIFO.
	file, err := os.OpenFile(d.Path(name), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("channel %s: %w (readers need write permission too: chmod it, or create it with another umask)", name, err)
	}
	return file, err
}

// readHeader reads and checks the fields that determine the size of the mapping and the kind of Ach (ErrForeign). It uses
// read(2), which is safe for a file that is too short.
func readHeader(file *os.File, name string) (header, Geometry, error) {
	st, err := file.Stat()
	if err != nil {
		return header{}, Geometry{}, err
	}
	if !st.Mode().IsRegular() {
		return header{}, Geometry{}, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	var b [headerBytes]byte
	n, err := file.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return header{}, Geometry{}, err
	}
	h := parseHeader(&b)
	switch {
	case h.magic == 0 || n < 4:
		return h, Geometry{}, ErrHalfCreated
	case h.magic != headerMagic:
		return h, Geometry{}, fmt.Errorf("%w: magic is %#x, not %#x", ErrCorrupt, h.magic, uint32(headerMagic))
	case n < headerBytes:
		return h, Geometry{}, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrTruncated, n, headerBytes)
	}
	geom, err := h.geometry()
	switch {
	case err != nil && is32Bit(&b, name, st.Size()):
		err = ErrAch32Bit
	case err != nil:
	case st.Size() < int64(geom.bytes()):
		err = fmt.Errorf("%w: %d bytes instead of %d", ErrTruncated, st.Size(), geom.bytes())
	default:
		h.kind, err = kindOf(&b)
	}
	return h, geom, err
}

// geometry returns the geometry, after checking that the counts are plausible.
func (h header) geometry() (Geometry, error) {
	const limit = 1 << 40 // in bytes, above any memory but far from overflow
	switch {
	case h.indexCnt == 0 || h.indexCnt > limit/entryBytes:
		return Geometry{}, fmt.Errorf("%w: index_cnt is %d", ErrCorrupt, h.indexCnt)
	case h.dataSize == 0 || h.dataSize > limit || h.dataSize%h.indexCnt != 0:
		return Geometry{}, fmt.Errorf("%w: data_size is %d, index_cnt %d", ErrCorrupt, h.dataSize, h.indexCnt)
	}
	geom := Geometry{int(h.indexCnt), int(h.dataSize / h.indexCnt)}
	if h.len != geom.bytes() {
		return Geometry{}, fmt.Errorf("%w: len is %d instead of %d", ErrCorrupt, h.len, geom.bytes())
	}
	return geom, nil
}

// Filling a mapping's page tables when it is mapped avoids later page faults under the lock. But it takes 50 ms and 2 MiB of
// page tables per GiB, and a user can give a large file thousands of names. So large mappings are not filled, and their large
// frames are copied without the lock. The total is limited too.
const (
	maxFilled    = 64 << 20 // maximum number of bytes of one mapping
	maxFilledAll = 4 << 30
)

// filledAll is how many bytes of mappings are filled.
var filledAll atomic.Int64

// fills reports whether to fill the mapping of a file. Filling must not allocate memory for the holes of a sparse file.
func fills(file *os.File, geom Geometry) bool {
	var st unix.Stat_t
	if geom.bytes() > maxFilled || unix.Fstat(int(file.Fd()), &st) != nil || st.Blocks*512 < st.Size {
		return false
	}
	return filledAll.Load()+int64(geom.bytes()) <= maxFilledAll
}

// mapFile maps a file, which must be long enough.
func (d Dir) mapFile(name string, geom Geometry, file *os.File, k kind) (*Channel, error) {
	id, _, err := identify(file)
	if err != nil {
		return nil, err
	}
	flags, filled := unix.MAP_SHARED, int64(0)
	if fills(file, geom) {
		flags, filled = flags|unix.MAP_POPULATE, int64(geom.bytes())
	}
	protection := unix.PROT_READ
	if !k.plainLock { // a channel with a plain lock is only read, without the lock
		protection |= unix.PROT_WRITE
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(geom.bytes()), protection, flags)
	if err != nil {
		return nil, &fs.PathError{Op: "mmap", Path: file.Name(), Err: err}
	}
	c := &Channel{dir: d, name: name, geom: geom, kind: k, file: id, memory: memory, filled: filled, m: mappingOf(memory, geom, k), epoch: id.epoch(0)}
	filledAll.Add(filled)
	c.holesFD.Store(-1)
	c.users.Store(1)
	if seq, s := c.m.lastSeq(); s == statusOK {
		c.maxSeq.Store(seq)
	}
	return c, nil
}
