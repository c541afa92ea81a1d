package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"achbridge/bridge/layout"
	"achbridge/localach"
)

// Published is the content of the file that `achbridge publish` writes for each channel, in the directory of the channels. It
// identifies the channel's file, and has the layout of the frames. The file is a layout file with comments at its beginning. Its
// length does not depend on the process and the inode, so that it can be overwritten in one write.
type Published struct {
	Inode  uint64 // inode of the channel's file
	PID    int    // process id of the publisher
	Layout *layout.Layout
}

// publishedHead is the format of the first two lines. publishedScan is the format to scan them.
const (
	publishedHead = "# channel file: inode %020d\n# publisher: process %010d\n"
	publishedScan = "# channel file: inode %d\n# publisher: process %d\n"
)

// PublishedFile returns the name of the file that `achbridge publish` writes for a channel, without the directory.
func PublishedFile(channel string) string { return ".achbridge.publish-" + channel }

// Text returns the content of the file.
func (p Published) Text() ([]byte, error) {
	text, err := LayoutText(p.Layout, "")
	return append(fmt.Appendf(nil, publishedHead, p.Inode, p.PID), text...), err
}

// ReadPublished reads the file of a channel. It returns an error if there is none, or if publish did not write it.
func ReadPublished(dir localach.Dir, channel string) (Published, error) {
	p, _, err := readPublished(dir, channel)
	return p, err
}

// PublishedLayout returns the layout of a channel that `achbridge publish` has created, and nil for other channels.
func PublishedLayout(dir localach.Dir, channel string) *layout.Layout {
	p, _ := PublishedChannel(dir, channel)
	return p.Layout
}

// PublishedChannel reads the file of a channel that `achbridge publish` has created. ok is false if another program created the
// channel, or if the file is damaged or belongs to another user than the channel.
func PublishedChannel(dir localach.Dir, channel string) (p Published, ok bool) {
	p, owner, err := readPublished(dir, channel)
	if err != nil {
		return Published{}, false
	}
	st, err := os.Lstat(dir.Path(channel))
	if err != nil {
		return Published{}, false
	}
	if file, known := st.Sys().(*syscall.Stat_t); !known || file.Ino != p.Inode || file.Uid != owner {
		return Published{}, false
	}
	return p, true
}

// readPublished does what ReadPublished does, and also returns the user id of the file's owner. It does not follow a link, and does
// not block if the file is a pipe.
func readPublished(dir localach.Dir, channel string) (p Published, owner uint32, err error) {
	f, err := os.OpenFile(filepath.Join(string(dir), PublishedFile(channel)), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return p, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return p, 0, err
	}
	if !st.Mode().IsRegular() {
		return p, 0, fmt.Errorf("%s: not a regular file", f.Name())
	}
	text, err := io.ReadAll(io.LimitReader(f, layout.MaxText+1))
	if err != nil {
		return p, 0, err
	}
	if _, err := fmt.Fscanf(bytes.NewReader(text), publishedScan, &p.Inode, &p.PID); err != nil {
		return p, 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	p.Layout, err = ReadLayout(f.Name(), text)
	return p, st.Sys().(*syscall.Stat_t).Uid, err
}
