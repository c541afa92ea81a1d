package mirror

import (
	"bytes"
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

// putRecord records which frame of the origin was last put into an adopted channel, or into the output of a merge, so
// that a restarted daemon does not put it twice. Mirrors that we created have this record in the tag of their file. The file of an
// adopted channel is not ours to mark.
//
// The record is a memory-mapped file of one page in the channel directory. An update costs a few stores, and no
// disk can delay it. The record lasts as long as the channels do. Its name is random, so that no other user can
// create it first. It is found by its owner, its permissions (0600) and its content; links are not followed.
// Each name of an adopted channel has one record, which is reused and never removed. Not safe for concurrent
// use.
type putRecord struct {
	memory []byte
	page   *recordPage
}

// recordPage is the content of the file; the rest of the page is zero. Only one of the two notes is valid. An
// update writes the other one and then makes it valid, so that a killed daemon leaves a complete note.
type recordPage struct {
	magic   [8]byte
	channel [64]byte // name of the adopted channel
	counts  atomic.Uint64
	notes   [2]putNote
}

// putNote is the state right before a put.
type putNote struct {
	file    uint64   // identity of the adopted channel's file: its boot, inode and birth
	node    [16]byte // host that the frames are from
	origin  uint64   // identity of the origin's channel
	epoch   uint64   // epoch of the origin's channel
	lastPut uint64   // newest frame of the origin that was certainly put
	next    uint64   // newest frame of the origin after the put
	before  uint64   // last_seq of the adopted channel before the put
}

const (
	recordMagic  = "achputs1"
	recordPrefix = ".achbridge.put-"
	recordBytes  = 4096
)

// openPutRecord returns the record of the adopted channel called name. It creates one if there is none.
func openPutRecord(dir localach.Dir, name string) (found *putRecord, err error) {
	list, err := findRecords(dir, name)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if found == nil && r.page.channel == recordName(name) {
			found = r
			continue
		}
		r.close()
	}
	if found != nil {
		return found, nil
	}
	return makeRecord(dir, name)
}

// findRecords opens all put records in dir for names that begin with prefix.
func findRecords(dir localach.Dir, prefix string) (found []*putRecord, err error) {
	list, err := os.ReadDir(string(dir))
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		if !strings.HasPrefix(entry.Name(), recordPrefix) {
			continue
		}
		if r := takeUpRecord(filepath.Join(string(dir), entry.Name()), prefix); r != nil {
			found = append(found, r)
		}
	}
	return found, nil
}

// takeUpRecord opens an existing record. It returns nil if the file does not belong to this user, or is not the record of a name
// that begins with prefix.
func takeUpRecord(path, prefix string) *putRecord {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || !ownRecord(&st) {
		return nil // do not even open an unknown file
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
	if string(r.page.magic[:]) != recordMagic || !bytes.HasPrefix(r.page.channel[:], []byte(prefix)) {
		r.close()
		return nil
	}
	return r
}

// ownRecord reports whether the file can be a record that only our user could write.
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
	_, err = file.Write(content)                                // the whole page, so that no later store fails for lack of memory
	if err := errors.Join(err, file.Chmod(0o600)); err != nil { // the umask may have cleared bits
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

// note records that tag.Seq is in the channel, and that frame next will be after the next put. It makes no
// system call and does not allocate.
func (r *putRecord) note(ch *localach.Channel, tag localach.Tag, next uint64) {
	nextSlot := 1 - r.page.counts.Load()&1
	r.page.notes[nextSlot] = putNote{
		file: ch.Epoch(), node: tag.Node, origin: tag.Channel, epoch: tag.Epoch,
		lastPut: tag.Seq, next: next, before: ch.LastSeq(),
	}
	r.page.counts.Store(nextSlot)
}

// recall returns the frame that the channel holds. If last_seq has changed since the note, the recorded put
// counts as done. If another program has put a frame instead, the recorded frame is lost rather than put twice.
// The zero Tag means unknown: the file is another one, or was initialised again, so that last_seq went back.
// last reports whether the newest frame in the channel is ours.
func (r *putRecord) recall(ch *localach.Channel) (tag localach.Tag, last bool) {
	n := r.page.notes[r.page.counts.Load()&1]
	now := ch.LastSeq()
	if n.file != ch.Epoch() || now < n.before {
		return localach.Tag{}, false
	}
	tag = localach.Tag{Node: n.node, Channel: n.origin, Epoch: n.epoch, Seq: n.lastPut}
	if now != n.before {
		tag.Seq = n.next
	}
	return tag, tag.Seq != 0 && now <= n.before+1
}

// forget clears the record, because the channel's file was initialised again.
func (r *putRecord) forget() {
	nextSlot := 1 - r.page.counts.Load()&1
	r.page.notes[nextSlot] = putNote{}
	r.page.counts.Store(nextSlot)
}

func (r *putRecord) close() {
	memory := r.memory
	r.memory, r.page = nil, nil
	_ = unix.Munmap(memory) // cannot fail, since memory is mapped
}
