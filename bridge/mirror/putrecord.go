package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// putRecord remembers which frame of its origin was put last into an adopted channel,
// so that no frame is put twice when the daemon was killed. A mirror that we made
// remembers it in its own file; the file of an adopted channel is not ours to mark.
//
// The record is a file of one page beside the channels, which the daemon maps: a note
// costs a few stores, and no disk can delay it. It lives as long as the channels do.
// Its name is random, so that nobody can take it first. It is found by its owner, its
// permissions (0600) and its content, and links are not followed. There is one for each name of
// an adopted channel; it is used again, and never removed. One goroutine at a time.
type putRecord struct {
	memory []byte
	page   *recordPage
}

// recordPage is the content of the file, of which the rest is zero. Of the two notes one
// counts; the other is written, and then made to count: a kill leaves a whole one.
type recordPage struct {
	magic   [8]byte
	channel [64]byte // name of the adopted channel
	counts  atomic.Uint64
	notes   [2]putNote
}

// putNote is what was known right before a put.
type putNote struct {
	file   uint64   // identity of the adopted channel's file: its boot, inode and birth
	node   [16]byte // that the frames come from
	origin uint64   // identity of the origin's channel
	epoch  uint64   // of that
	held   uint64   // newest frame of the origin that was put for sure
	next   uint64   // newest frame of the origin once the put has happened
	before uint64   // last_seq of the adopted channel before the put
}

const (
	recordMagic  = "achputs1"
	recordPrefix = ".achbridge.put-"
	recordBytes  = 4096
)

// openPutRecord returns the record of the adopted channel called name, which it makes if
// there is none.
func openPutRecord(dir localach.Dir, name string) (*putRecord, error) {
	list, err := os.ReadDir(string(dir))
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		if !strings.HasPrefix(entry.Name(), recordPrefix) {
			continue
		}
		if r := takeUpRecord(filepath.Join(string(dir), entry.Name()), name); r != nil {
			return r, nil
		}
	}
	return makeRecord(dir, name)
}

// takeUpRecord is nil when the file is not the record of that channel, or not ours.
func takeUpRecord(path, name string) *putRecord {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || !ownRecord(&st) {
		return nil // not even opened: who knows what it is
	}
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if unix.Fstat(int(file.Fd()), &st) != nil || !ownRecord(&st) {
		return nil
	}
	r, err := mapRecord(file)
	if err != nil {
		return nil
	}
	if string(r.page.magic[:]) != recordMagic || r.page.channel != recordName(name) {
		r.close()
		return nil
	}
	return r
}

// ownRecord reports whether a file can be a record that we, and nobody else, wrote.
func ownRecord(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o777 == 0o600 &&
		int(st.Uid) == os.Geteuid() && st.Size == recordBytes
}

func makeRecord(dir localach.Dir, name string) (*putRecord, error) {
	path := filepath.Join(string(dir), fmt.Sprintf("%s%016x", recordPrefix, rand.Uint64()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content := make([]byte, recordBytes)
	page := (*recordPage)(unsafe.Pointer(unsafe.SliceData(content)))
	copy(page.magic[:], recordMagic)
	page.channel = recordName(name)
	_, err = file.Write(content)                                // all of the page: no later store can fail for want of memory
	if err := errors.Join(err, file.Chmod(0o600)); err != nil { // the umask may have taken bits
		_ = os.Remove(path)
		return nil, err
	}
	return mapRecord(file)
}

func mapRecord(file *os.File) (*putRecord, error) {
	memory, err := unix.Mmap(int(file.Fd()), 0, recordBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, &fs.PathError{Op: "mmap", Path: file.Name(), Err: err}
	}
	return &putRecord{memory: memory, page: (*recordPage)(unsafe.Pointer(unsafe.SliceData(memory)))}, nil
}

func recordName(name string) (text [64]byte) {
	copy(text[:], name)
	return text
}

// note remembers that tag.Seq is in the channel, and that frame next will be as soon as
// one more is put. It costs no system call and no allocation.
func (r *putRecord) note(ch *localach.Channel, tag localach.Tag, next uint64) {
	spare := 1 - r.page.counts.Load()&1
	r.page.notes[spare] = putNote{
		file: ch.Epoch(), node: tag.Node, origin: tag.Channel, epoch: tag.Epoch,
		held: tag.Seq, next: next, before: ch.LastSeq(),
	}
	r.page.counts.Store(spare)
}

// recall returns what the channel holds. Whether the put that was noted last came about,
// last_seq tells; if somebody else has put since, it counts as put: it is lost, rather than
// put twice. The zero Tag is that nothing is known: of another file, or of one that
// was initialised again, whose last_seq is less than it was. last reports whether the
// newest frame is ours.
func (r *putRecord) recall(ch *localach.Channel) (tag localach.Tag, last bool) {
	n := r.page.notes[r.page.counts.Load()&1]
	now := ch.LastSeq()
	if n.file != ch.Epoch() || now < n.before {
		return localach.Tag{}, false
	}
	tag = localach.Tag{Node: n.node, Channel: n.origin, Epoch: n.epoch, Seq: n.held}
	if now != n.before {
		tag.Seq = n.next
	}
	return tag, tag.Seq != 0 && now <= n.before+1
}

// forget begins anew, because the channel's file was initialised again.
func (r *putRecord) forget() {
	spare := 1 - r.page.counts.Load()&1
	r.page.notes[spare] = putNote{}
	r.page.counts.Store(spare)
}

func (r *putRecord) close() {
	memory := r.memory
	r.memory, r.page = nil, nil
	_ = unix.Munmap(memory) // it is mapped
}
