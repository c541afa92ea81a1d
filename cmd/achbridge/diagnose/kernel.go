package diagnose

import (
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// HiddenBy describes the programs that open the kernel's channel of a name instead of the one in shared memory. It takes what
// localach.Dir.KernelDevice returns, and returns "" if the kernel has no such channel.
func HiddenBy(device localach.Device, there bool) string {
	if !there {
		return ""
	}
	return ui.WhoMayOpen(device.Mode, device.UID, device.GID) + " open the kernel's channel " + device.Path + " instead"
}

// hiddenChannel is the finding that programs do not see a channel of this host. No cure removes the kernel's channel: that
// can crash the kernel while a program has it open.
func hiddenChannel(name, hidden string) Finding {
	return Finding{Cause: status.CauseKernelChannel, Text: name + ": " + hidden, Cure: "have its programs use shared memory, or another name"}
}

// hiddenMirror is the finding that programs do not see a mirror.
func hiddenMirror(name, hidden string) Finding {
	f := hiddenChannel(name, hidden)
	f.Cure = "give the mirror another name: --as NAME"
	return f
}

// withHidden adds to the findings that the kernel's channel hides the snapshot's; it is the verdict if all else is well.
func (s *Snapshot) withHidden(list []Finding) []Finding {
	if s.File.Kernel == "" {
		return list
	}
	f := hiddenChannel(s.Channel, s.File.Kernel)
	if m, there := MirrorOf(s.After, s.Host, s.Channel); there && !s.Self {
		f = hiddenMirror(m.Name, s.File.Kernel)
	}
	if list[0].Cause == Well {
		return append([]Finding{f}, list...)
	}
	return append(list, f)
}
