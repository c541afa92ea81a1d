package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// record marks a kernel channel as made by the daemon, and holds the number of the frame that the daemon wrote last. A kernel
// channel itself can hold neither. The record is a file in the directory of the channels in shared memory, which a reboot empties too. Only
// its owner may write it. Each update is one system call, so a killed daemon leaves a whole record.
type record struct {
	file *os.File // nil in a result of readRecord
	note recordNote
}

// recordNote is the content of a record.
type recordNote struct {
	Magic [8]byte
	// Inode and the time of birth identify the device node. They are 0 while the channel is being made.
	Inode             uint64
	BornSec, BornNsec int64
	StartedAt         int64  // when the daemon began to make the channel, Unix time in ns
	Epoch             uint64 // epoch of the mirror's file that Seq counts in
	Seq               uint64 // number of the frame of the mirror that was written last
	Before            uint64 // last_seq of the kernel channel before that write
}

const recordMagic = "achkern1"

// bornSlack is the error of the time of birth, for which the kernel uses a clock that ticks every few milliseconds.
const bornSlack = 20 * time.Millisecond

// makeLimit is the time after which a channel that appears is not the one that a killed daemon was making.
const makeLimit = 2 * time.Second

// openRecord opens the record of a channel. It makes an empty one if there is none.
func openRecord(shm localach.Dir, name string) (*record, error) {
	return loadRecord(localach.DeviceCopyRecord(shm, name), os.O_RDWR|os.O_CREATE)
}

// readRecord reads the record of a channel. It returns fs.ErrNotExist if there is none.
func readRecord(shm localach.Dir, name string) (*record, error) {
	r, err := loadRecord(localach.DeviceCopyRecord(shm, name), os.O_RDONLY)
	if err == nil {
		r.close()
	}
	return r, err
}

func loadRecord(path string, flags int) (*record, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	r := &record{file: file}
	if err := r.load(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *record) load() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("another user can have written this record of a kernel channel, so it is not used: %w", fs.ErrPermission)
	}
	err := binary.Read(io.NewSectionReader(r.file, 0, int64(binary.Size(r.note))), binary.LittleEndian, &r.note)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(r.note.Magic[:]) != recordMagic {
		r.note = recordNote{}
	}
	return nil
}

// owns reports whether the daemon made the channel whose device has this path.
func (r *record) owns(path string) bool {
	at, err := nodeAt(path)
	switch {
	case err != nil || r.note.StartedAt == 0:
		return false
	case r.note.Inode != 0:
		return r.note.Inode == at.inode && r.note.BornSec == at.createdAt.Sec && r.note.BornNsec == int64(at.createdAt.Nsec)
	}
	// A daemon was killed while it made the channel. There was no such channel when it began. If the clock was set meanwhile, the
	// channel does not count as made by the daemon, and stays.
	born := time.Unix(at.createdAt.Sec, int64(at.createdAt.Nsec)) // wall clock, like StartedAt
	after := born.Sub(time.Unix(0, r.note.StartedAt))
	return -bornSlack <= after && after <= makeLimit
}

// begin records that the channel is being made from now on.
func (r *record) begin() error { return r.set(recordNote{StartedAt: time.Now().UnixNano()}) }

// made records the device of the channel.
func (r *record) made(at node) error {
	n := r.note
	n.Inode, n.BornSec, n.BornNsec = at.inode, at.createdAt.Sec, int64(at.createdAt.Nsec)
	return r.set(n)
}

// writes records that a frame is written next. before is the number of the newest frame in the kernel channel.
func (r *record) writes(epoch, seq, before uint64) error {
	n := r.note
	n.Epoch, n.Seq, n.Before = epoch, seq, before
	return r.set(n)
}

// written returns the number of the newest frame of a mirror's file that the kernel channel got, 0 if none. last is the number of
// the newest frame in the kernel channel. If other programs have written too, the result can be too large, never too small:
// no frame is written twice.
func (r *record) written(epoch, last uint64) uint64 {
	switch n := r.note; {
	case n.Epoch != epoch:
		return 0
	case n.Before == last:
		return n.Seq - min(n.Seq, 1)
	default:
		return n.Seq
	}
}

func (r *record) set(n recordNote) error {
	copy(n.Magic[:], recordMagic)
	var content [64]byte
	if _, err := binary.Encode(content[:], binary.LittleEndian, n); err != nil {
		return err
	}
	if _, err := r.file.WriteAt(content[:], 0); err != nil {
		return err
	}
	r.note = n
	return nil
}

// remove removes the record, after which the channel counts as made by another program.
func (r *record) remove() error { return os.Remove(r.file.Name()) }

func (r *record) close() { r.file.Close() }
