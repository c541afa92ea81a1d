// Package view reads channels for commands: channels of this host, or of other hosts through a temporary mirror.
//
//	h := view.Host{Places: places, Dir: localach.Shm, Note: terminal.Note}
//	err := h.Follow(ctx, h.Client(""), "krang/imu", func(v view.View) error {
//		return view.NewFollower(v.Channel).Each(v.Ctx, first, print)
//	})
//
// names.go resolves patterns to channels, follower.go reads frames, layout.go and later.go find their layout, and meter.go
// measures their rate.
package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// Host is the host on which channels are read.
type Host struct {
	config.Places
	Dir  localach.Dir
	Note func(format string, args ...any) // prints a note for the user
}

// quiet returns h without notes.
func (h Host) quiet() Host {
	h.Note = func(string, ...any) {}
	return h
}

// Client returns a client of the daemon whose control socket is at path; "" is the usual place.
func (h Host) Client(path string) *api.Client {
	if named := cmp.Or(path, h.namedControl()); named != "" {
		return api.New(named)
	}
	return api.New(h.FindControl(), h.UserControls()...)
}

// namedControl returns the control socket that the environment names, "" if none.
func (h Host) namedControl() string { return h.Env(config.EnvName("control")) }

// Open opens a channel of this host to read it. Its errors have an exit code and a fix.
func (h Host) Open(name string) (*localach.Channel, error) { return h.open(name, h.Dir.OpenToRead) }

// OpenToWrite opens a channel of this host like Open, to put frames into it.
func (h Host) OpenToWrite(name string) (*localach.Channel, error) { return h.open(name, h.Dir.Open) }

func (h Host) open(name string, open func(string) (*localach.Channel, error)) (*localach.Channel, error) {
	ch, err := open(name)
	if err != nil {
		return nil, h.ChannelError(name, err)
	}
	return ch, nil
}

// ChannelError adds an exit code and a fix to an error of localach.
func (h Host) ChannelError(name string, err error) error {
	anew := fmt.Sprintf("achbridge channel create %s --replace", name)
	switch {
	case ui.ExitCode(err) == ui.ExitUsage, ui.Fix(err) != "": // err already has both
		return err
	case errors.Is(err, localach.ErrName):
		return ui.Usage(err, "")
	case errors.Is(err, fs.ErrNotExist):
		if hidden := diagnose.HiddenBy(h.Dir.KernelDevice(name)); hidden != "" {
			return ui.NotFound(fmt.Errorf("channel %s: not found in %s; %s", name, h.Dir, hidden), "this command reads channels in shared memory only")
		}
		return ui.NotFound(fmt.Errorf("channel %s: not found in %s", name, h.Dir),
			"achbridge channel ls lists them, achbridge channel create "+name+" makes it")
	case errors.Is(err, fs.ErrExist):
		return ui.Failure(fmt.Errorf("channel %s: exists already", name), "use it as it is; or end the programs that use it, then "+anew)
	case errors.Is(err, fs.ErrPermission):
		return ui.Failure(err, h.permissionFix(name))
	case errors.Is(err, localach.ErrReplaced), errors.Is(err, localach.ErrUnlinked), errors.Is(err, localach.ErrReinitialised):
		return ui.Failure(err, "start again to open the channel that is there now")
	case errors.Is(err, localach.ErrReadOnly):
		return ui.Failure(err, "leave writing to its own programs, or choose another name")
	case errors.Is(err, localach.ErrForeign):
		return ui.Failure(err, "leave it to its own programs; the achd that belongs to its Ach serves it: achbridge mirror achd://HOST/"+name+" on other hosts")
	case errors.Is(err, localach.ErrHalfCreated):
		return ui.Failure(err, "try again; when it stays so, its creator has died: achbridge channel rm "+name)
	case errors.Is(err, localach.ErrBusy):
		return ui.Failure(err, "find who holds it: achbridge channel info "+name)
	case errors.Is(err, localach.ErrGeometry):
		return ui.Failure(err, "end the programs that use it, then give it a geometry that libach can open: "+anew+" --frames N --size BYTES")
	case errors.Is(err, localach.ErrCorrupt), errors.Is(err, localach.ErrWedged):
		return ui.Failure(err, "end the programs that use it, then achbridge channel rm "+name+": its publisher creates it again")
	}
	return ui.Failure(err, "")
}

// permissionFix returns the fix for a channel that this user may not open. If the file belongs to
// the daemon's user, the channel is a mirror: the fix then gives access to the group of the control socket.
func (h Host) permissionFix(name string) string {
	file, err := os.Stat(h.Dir.Path(name))
	socket, socketErr := os.Stat(cmp.Or(h.namedControl(), h.FindControl()))
	if errors.Join(err, socketErr) != nil || ownerOf(file).Uid != ownerOf(socket).Uid {
		return "readers of a channel need write permission too: its owner can give it with chmod g+rw or o+rw; for a mirror, file_mode: 0660 in its rule does"
	}
	all := "file_mode: 0666 in the mirror's rule, and for the present file: sudo chmod 0666 " + h.Dir.Path(name)
	if ownerOf(socket).Gid == 0 { // do not advise to join the group root
		return "let all users open it: write " + all + "; or run the daemon with a group for its mirrors, as the packaged service does"
	}
	_, group, _ := strings.Cut(ui.UserText(int(ownerOf(socket).Uid), int(ownerOf(socket).Gid)), ":")
	join := fmt.Sprintf("join %s, the group of the daemon's control socket: sudo usermod -aG %s $USER, then log in again", group, group)
	if file.Mode()&0o060 == 0o060 && ownerOf(file).Gid == ownerOf(socket).Gid {
		return join + "; or let all users open it: write " + all
	}
	return fmt.Sprintf("write file_mode: 0660 in the mirror's rule, and for the present file: sudo chgrp %s %s && sudo chmod 0660 %s; then %s",
		group, h.Dir.Path(name), h.Dir.Path(name), join)
}

// ownerOf returns the owner and the group of a file.
func ownerOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
