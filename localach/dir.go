package localach

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a directory that holds channels.
type Dir string

// Shm is where libach keeps them.
const Shm Dir = "/dev/shm"

// Path is where the file of a channel is, or would be.
func (d Dir) Path(name string) string { return filepath.Join(string(d), filePrefix+name) }

// Unlink removes the channel's name. Who has it open keeps it, and is not told (Channel.Check finds out).
func (d Dir) Unlink(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return os.Remove(d.Path(name))
}

// Info is what a directory tells of a channel without mapping it.
type Info struct {
	Name     string
	Geometry Geometry
	LastSeq  uint64
	Mode     fs.FileMode
	Inode    uint64
	Mirror   bool // carries a Tag
	Tag      Tag
	Err      error // why it cannot be used; then only Name, Mode and Inode are to be relied on
}

// List returns the channels of the directory in order of name, the unusable ones with Err. It blocks for no lock, and reads
// headers with read(2): a file that shrinks meanwhile does no harm.
func (d Dir) List() ([]Info, error) {
	entries, err := os.ReadDir(string(d)) // sorted
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, entry := range entries {
		name, ok := channelName(entry.Name())
		if !ok {
			continue
		}
		if info, err := d.Info(name); err == nil { // else it vanished meanwhile
			list = append(list, info)
		}
	}
	return list, nil
}

// Info returns one channel's entry of List. The error is fs.ErrNotExist if there is no file of that name, and ErrName if a
// channel cannot have that name.
func (d Dir) Info(name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	st, err := os.Lstat(d.Path(name))
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name, Mode: st.Mode().Perm(), Inode: inodeOf(st)}
	file, err := d.openFile(name)
	if err != nil {
		info.Err = err
		return info, nil
	}
	defer file.Close()
	h, geom, err := readHeader(file, name)
	info.Err = err
	if err == nil {
		info.Geometry, info.LastSeq, info.Tag = geom, h.lastSeq, h.tag
		info.Mirror = h.tag != Tag{}
	}
	return info, nil
}

// describeFailure puts the channel's name before the cause.
func describeFailure(name string, err error) error { return fmt.Errorf("channel %s: %w", name, err) }
