package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

// channelInfo is the JSON output of `channel info`.
type channelInfo struct {
	Channel     string            `json:"channel"`
	FrameCount  int               `json:"frame_count"`
	FrameSize   int               `json:"frame_size"`
	Bytes       int64             `json:"bytes"` // size of the file
	Seq         uint64            `json:"seq"`   // number of the newest frame
	Frames      int               `json:"frames"`
	Mode        string            `json:"mode"`
	Inode       uint64            `json:"inode"`
	Dirty       bool              `json:"dirty"`
	LockOwner   int               `json:"lock_owner"` // thread id; 0 means that the lock is free
	Waiters     int               `json:"waiters"`
	ForeignCond bool              `json:"foreign_cond"`
	Ach1x       bool              `json:"ach_1x,omitempty"` // made with Ach 1.x, so achbridge only reads it
	Kernel      string            `json:"kernel,omitempty"` // which programs open the kernel module's channel of this name instead; empty means none
	Mirror      *mirrorTag        `json:"mirror"`
	MetaOf      string            `json:"meta_of,omitempty"`   // the mirror that this metadata channel describes, see mirror --meta
	Type        string            `json:"type,omitempty"`      // layout of the frames, if known
	TypeFrom    status.TypeSource `json:"type_from,omitempty"` // "file" or "origin"
	Problem     string            `json:"problem,omitempty"`
}

// mirrorTag is the origin that the file of a mirror records.
type mirrorTag struct {
	Node  string `json:"node"`
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"` // the origin's number of the last frame put
}

func channelInfoCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "info NAME",
		Short:             "Show the properties of a channel",
		Example:           examples("achbridge ch info imu", "achbridge ch info imu --json"),
		Annotations:       docs("docs/monitoring.md"),
		Args:              takes("NAME"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := a.channelInfo(args[0])
			if err != nil {
				return err
			}
			a.addType(cmd.Context(), &info)
			return show(a, info, a.showChannel)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) channelInfo(name string) (channelInfo, error) {
	ch, err := a.Open(name)
	if err != nil {
		return channelInfo{}, err
	}
	defer ch.Close()
	st, err := ch.Stat()
	if err != nil {
		return channelInfo{}, a.ChannelError(name, err)
	}
	info := channelInfo{
		Channel:    name,
		FrameCount: st.Geometry.FrameCount, FrameSize: st.Geometry.FrameSize, Bytes: st.Bytes,
		Seq: st.LastSeq, Frames: st.Frames,
		Mode: fmt.Sprintf("%04o", st.Mode.Perm()), Inode: st.Inode,
		Dirty: st.Dirty, LockOwner: st.LockOwner, Waiters: st.Waiters, ForeignCond: st.ForeignCond, Ach1x: ch.IsAch1x(),
	}
	device, there := a.Dir.KernelDevice(name)
	info.Kernel = cmp.Or(diagnose.HiddenBy(device, there), diagnose.CopiedTo(device, there))
	if of, ok := mirror.MetaOf(name, st.Tag); ok {
		info.MetaOf = of
	} else if st.Tag != (localach.Tag{}) {
		info.Mirror = &mirrorTag{Node: hex.EncodeToString(st.Tag.Node[:]), Epoch: st.Tag.Epoch, Seq: st.Tag.Seq}
	}
	var hangs error
	if ch.WakeHangs() {
		hangs = errors.New(diagnose.HangingPut(name, info.Ach1x).Text)
	}
	if err := errors.Join(ch.Check(), st.Geometry.Check(), hangs); err != nil {
		info.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return info, nil
}

// addType adds the layout of the frames to info. If that fails, it prints a note and the rest of info is still shown.
func (a *app) addType(ctx context.Context, info *channelInfo) {
	ch, err := a.Open(info.Channel)
	if err != nil {
		return // info.Problem already has the reason
	}
	defer ch.Close()
	l, from, err := a.LayoutOf("", view.View{Channel: ch, Of: info.Channel, Asks: a.Client(""), Ctx: ctx})
	if err != nil {
		a.ui.Note("no type: %v", err)
	}
	if l != nil {
		info.Type, info.TypeFrom = l.Name, from
	}
}

func (a *app) showChannel(info channelInfo) error {
	mirror, lock, waiters, kind := "no", "free", fmt.Sprint(info.Waiters), info.Type
	if info.TypeFrom == status.TypeFromOrigin {
		kind += ", as its origin says"
	}
	if info.Mirror != nil {
		mirror = fmt.Sprintf("of node %s, up to its frame %d", info.Mirror.Node, info.Mirror.Seq)
		if strings.Trim(info.Mirror.Node, "0") == "" {
			mirror = fmt.Sprintf("by achd's protocol, unauthenticated, frame %d", info.Mirror.Seq)
		}
	}
	note := ""
	if info.Ach1x {
		note = diagnose.Ach1xNote
	}
	if info.LockOwner != 0 {
		lock = fmt.Sprintf("held by thread %d", info.LockOwner)
	}
	if info.ForeignCond {
		waiters = "made with another C library: readers that wait are never woken"
	}
	return a.ui.Fields(
		"channel", info.Channel,
		"geometry", geometryText(info.FrameCount, info.FrameSize),
		"seq", fmt.Sprint(info.Seq),
		"frames", fmt.Sprint(info.Frames),
		"type", kind,
		"mode", info.Mode,
		"file", fmt.Sprintf("%d bytes, inode %d", info.Bytes, info.Inode),
		"mirror", mirror,
		"describes", info.MetaOf,
		"lock", lock,
		"waiters", waiters,
		"kernel", info.Kernel,
		"note", note,
		"problem", info.Problem,
	)
}
