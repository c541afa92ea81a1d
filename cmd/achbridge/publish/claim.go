package publish

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// claim is the right of a publisher to write a channel. It has a file, config.PublishedFile, which the publisher keeps locked until
// its end. The file has the inode of the channel's file, so that publish never writes into a channel of another program. It also has
// the layout of the frames.
type claim struct {
	Stream
	dir     localach.Dir
	file    *os.File
	channel *localach.Channel
	inode   uint64 // inode of the channel's file
}

// claim creates the channel and claims it. If a former publisher was killed and left the channel, claim takes over that one.
func (s Stream) claim(dir localach.Dir) (*claim, error) {
	file, err := dir.LockFile(config.PublishedFile(s.Name), 0o644)
	switch {
	case errors.Is(err, localach.ErrLocked):
		return nil, s.inUse(dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, ui.Failure(fmt.Errorf("channel %s: another user's publish has left it: %w", s.Name, err),
			"choose another name, or as root: achbridge channel rm "+s.Name)
	case err != nil:
		return nil, ui.Failure(fmt.Errorf("channel %s: %w", s.Name, err), "")
	}
	c := &claim{Stream: s, dir: dir, file: file}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

// inUse returns an error that names the other publisher.
func (s Stream) inUse(dir localach.Dir) error {
	err, fix := fmt.Errorf("channel %s: another publish writes it", s.Name), "end it, or choose another name"
	if p, _ := config.ReadPublished(dir, s.Name); p.PID > 0 {
		err = fmt.Errorf("%w: process %d", err, p.PID)
		fix = fmt.Sprintf("choose another name, or end it: kill %d", p.PID)
	}
	return ui.Failure(err, fix)
}

// open creates the channel. If a killed publisher has left the channel, open uses it if its frames have the same layout and geometry,
// and replaces it otherwise.
func (c *claim) open() (err error) {
	create := localach.CreateConfig{Geometry: c.geometry(), Announce: c.announce}
	info, err := c.dir.Info(c.Name)
	left, isOurs := config.PublishedChannel(c.dir, c.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return ui.Failure(err, "")
	case info.IsAch1x:
		return ui.Failure(fmt.Errorf("channel %s: exists: %w", c.Name, localach.ErrReadOnly), "choose another name")
	case errors.Is(info.Err, localach.ErrForeign):
		return ui.Failure(fmt.Errorf("channel %s: exists: %w", c.Name, info.Err), "choose another name")
	case !isOurs:
		return c.foreign()
	case info.Err == nil && info.Geometry == create.Geometry && c.hasText(info.Inode, left.PID):
		if c.channel, err = c.dir.Open(c.Name); err != nil {
			return ui.Failure(err, "achbridge channel rm "+c.Name)
		}
		return c.write(info.Inode)
	default:
		create.Replace = true
	}
	c.channel, err = c.dir.Create(c.Name, create)
	switch {
	case errors.Is(err, fs.ErrExist):
		return c.foreign()
	case err != nil:
		return ui.Failure(err, "")
	}
	return nil
}

func (c *claim) foreign() error {
	return ui.Failure(fmt.Errorf("channel %s: exists, and publish did not make it", c.Name),
		"choose another name; or end the programs that use it, then achbridge channel rm "+c.Name)
}

// text returns the content of the claim's file.
func (c *claim) text(inode uint64, pid int) ([]byte, error) {
	return config.Published{Inode: inode, PID: pid, Layout: c.layout()}.Text()
}

// hasText reports whether the process pid has written the file for the channel with this inode and the same layout of frames.
func (c *claim) hasText(inode uint64, pid int) bool {
	want, err := c.text(inode, pid)
	got, failed := os.ReadFile(c.file.Name())
	return err == nil && failed == nil && bytes.Equal(got, want)
}

// announce writes the claim's file for a new channel. localach.Create calls it before any program sees the channel.
func (c *claim) announce(inode uint64) error {
	_ = c.file.Chown(os.Geteuid(), -1) // root may have taken over another user's file; file and channel must have one owner
	return c.write(inode)
}

// write writes the claim's file. Texts for the same layout have the same length, so one write replaces the whole text, and readers
// always see a complete one.
func (c *claim) write(inode uint64) error {
	text, err := c.text(inode, os.Getpid())
	if err != nil {
		return err
	}
	if _, err := c.file.WriteAt(text, 0); err != nil {
		return err
	}
	c.inode = inode
	return c.file.Truncate(int64(len(text)))
}

// remove removes the channel and the claim's file, unless another program has replaced the channel.
func (c *claim) remove(log *slog.Logger) {
	var err error
	if info, _ := c.dir.Info(c.Name); info.Inode == c.inode {
		err = c.dir.Unlink(c.Name)
	}
	if err := errors.Join(err, c.channel.Close(), c.release()); err != nil {
		log.Warn("channel not removed", "channel", c.Name, "err", err)
	}
}

// release ends the claim. It removes the claim's file, unless the channel that the file names still exists.
func (c *claim) release() (err error) {
	if _, isOurs := config.PublishedChannel(c.dir, c.Name); !isOurs {
		if err = os.Remove(c.file.Name()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, c.file.Close())
}

// Forget removes the file that a killed publisher has left for a channel. Call it after the channel was removed.
func Forget(dir localach.Dir, channel string) {
	if _, err := config.ReadPublished(dir, channel); err != nil {
		return
	}
	file, err := dir.LockFile(config.PublishedFile(channel), 0o644)
	if err != nil {
		return
	}
	c := &claim{Stream: Stream{Name: channel}, dir: dir, file: file}
	_ = c.release() // a remaining file does no harm
}
