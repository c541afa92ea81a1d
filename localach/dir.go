package localach

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a directory that holds channels.
type Dir string

// Shm is libach's directory.
const Shm Dir = "/dev/shm"

// Path returns the path of a channel's file, which need not exist.
func (d Dir) Path(name string) string { return filepath.Join(string(d), filePrefix+name) }

// Unlink removes the channel's name. Programs that have the channel open keep it, and can notice by Channel.Check.
func (d Dir) Unlink(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return os.Remove(d.Path(name))
}

// Info describes a channel in a directory, without mapping it.
type Info struct {
	Name     string
	Geometry Geometry
	LastSeq  uint64
	Mode     fs.FileMode
	Inode    uint64
	Mirror   bool // carries a Tag
	Tag      Tag
	IsAch1x  bool  // a program made the channel with Ach 1.x, so it can only be read
	Err      error // why the channel cannot be used; if set, only Name, Mode and Inode are valid
}

// List returns the channels of the directory sorted by name, unusable ones with Err. It waits for no lock. It reads headers
// with read(2), so a file that shrinks meanwhile does no harm.
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
		if info, err := d.Info(name); err == nil { // otherwise the file was removed meanwhile
			list = append(list, info)
		}
	}
	return list, nil
}

// Info returns the Info of one channel. The error is fs.ErrNotExist if there is no file of that name, and ErrName if the name
// is invalid.
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
		info.Mirror, info.IsAch1x = h.tag != Tag{}, h.kind.ach1x
	}
	return info, nil
}

// describeFailure wraps err with the channel's name.
func describeFailure(name string, err error) error { return fmt.Errorf("channel %s: %w", name, err) }
