package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/kept"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// keptFolder is the directory in the state directory that has the stored frames of channels.
const keptFolder = "frames"

// createChannels creates the channels that the configuration lists, and leaves existing ones as they are. It puts stored frames into
// channels into which no frame was ever put. Call it before the node watches channels, so that the age of these frames is unknown.
// It returns the events about channels. It returns an error only if a group cannot be set.
func (d *Daemon) createChannels(h Host, c *config.Config) ([]channelEvent, error) {
	if ps := c.CheckGroups(OwnGroups()); len(ps) > 0 {
		return nil, ui.Usage(ps, "")
	}
	dir, noState := h.StateDir(c.State)
	d.keeper = kept.New(h.Dir, filepath.Join(dir, keptFolder))
	m := channelMaker{dir: h.Dir, keeper: d.keeper}
	for _, ch := range c.ChannelRules {
		if ch.Keep && noState != nil {
			m.add(status.EventFrameNotKept, ch.Name, noState.Error())
			ch.Keep = false
		}
		m.create(ch)
	}
	return m.events, nil
}

// OwnGroups returns the groups of this process, nil for root.
func OwnGroups() []int {
	if os.Geteuid() == 0 {
		return nil
	}
	groups, _ := os.Getgroups()
	return append(groups, os.Getegid())
}

// channelEvent is an event from before the node exists. The node records it later.
type channelEvent struct {
	level   slog.Level
	message string
	event   status.Event
}

// channelMaker creates channels, and collects the events about them.
type channelMaker struct {
	dir    localach.Dir
	keeper *kept.Keeper
	events []channelEvent
}

func (m *channelMaker) add(kind status.EventKind, channel, text string) {
	e := channelEvent{slog.LevelWarn, "channel not created", status.Event{Kind: kind, Channel: channel, Text: text}}
	switch kind {
	case status.EventFrameRestored:
		e.level, e.message = slog.LevelInfo, "stored frame put back"
	case status.EventFrameNotKept:
		e.message = "frame not kept"
	}
	m.events = append(m.events, e)
}

func (m *channelMaker) create(ch config.Channel) {
	var stored []byte
	if ch.Keep {
		var err error
		if stored, err = m.keeper.Frame(ch.Name, ch.Geometry); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.add(status.EventFrameNotKept, ch.Name, "the stored frame is not put back: "+err.Error())
		}
	}
	isPut := stored != nil // createFile puts the stored frame, so that no program sees the channel without it
	switch err := m.createFile(ch, stored); {
	case errors.Is(err, fs.ErrExist):
		isPut = false
		if err := ChannelConflict(m.dir, ch); err != nil {
			m.add(status.EventUnusable, ch.Name, err.Error())
			stored = nil
		}
	case err != nil:
		m.add(status.EventUnusable, ch.Name, fmt.Sprintf("%s: %v", ch.From, err))
		isPut, stored = false, nil
	}
	if !ch.Keep {
		return
	}
	isPutNow, err := m.keeper.Add(ch.Name, ch.Geometry, stored) // also after an error: a program may create the channel later
	switch {
	case err != nil:
		m.add(status.EventFrameNotKept, ch.Name, err.Error())
	case isPut || isPutNow:
		m.add(status.EventFrameRestored, ch.Name, "the stored frame is put back; its age is unknown")
	}
}

// createFile creates a channel. Unless first is nil, it puts that frame before any program sees the channel. It returns fs.ErrExist
// if the channel exists.
func (m *channelMaker) createFile(ch config.Channel, first []byte) error {
	group, err := ch.GroupID()
	if err != nil {
		return err
	}
	made, err := m.dir.Create(ch.Name, localach.CreateConfig{Geometry: ch.Geometry, Mode: fs.FileMode(ch.FileMode), Group: group, First: first})
	if err != nil {
		return err
	}
	return made.Close()
}

// ChannelConflict returns an error if the channel of the rule ch exists, but has another geometry or cannot be used.
func ChannelConflict(dir localach.Dir, ch config.Channel) error {
	info, err := dir.Info(ch.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, info.Err); err != nil {
		return fmt.Errorf("%s: %s exists and is left as it is: %w", ch.From, ch.Name, err)
	}
	if info.Geometry != ch.Geometry {
		return fmt.Errorf("%s: %s exists with %d frames of %d bytes and is left as it is; the rule has %d of %d. Change the rule; or end the programs that use the channel, run achbridge channel rm %[2]s, and restart the daemon",
			ch.From, ch.Name, info.Geometry.FrameCount, info.Geometry.FrameSize, ch.Geometry.FrameCount, ch.Geometry.FrameSize)
	}
	return nil
}

// reportKept records why the newest frame of a channel cannot be stored. A nil err means that it can be stored again.
func (d *Daemon) reportKept(channel string, err error) {
	if err == nil {
		d.log.Info("frame kept again", "channel", channel)
		return
	}
	d.node.LogEvent(slog.LevelWarn, "frame not kept", status.Event{Kind: status.EventFrameNotKept, Channel: channel, Text: err.Error()}, "err", err)
}
