package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// HiddenBy describes the programs that open the kernel's channel of a name instead of the one in shared memory. It takes what
// localach.Dir.KernelDevice returns, and returns "" if the kernel has no such channel, or has a copy with the same frames.
func HiddenBy(device localach.Device, there bool) string {
	if !there || device.IsCopy {
		return ""
	}
	return opensKernel(device) + " instead"
}

// CopiedTo describes the programs that open the kernel's copy of a mirror. It returns "" if the kernel has none.
func CopiedTo(device localach.Device, there bool) string {
	if !there || !device.IsCopy {
		return ""
	}
	return opensKernel(device) + ", which gets the same frames"
}

func opensKernel(device localach.Device) string {
	return ui.WhoMayOpen(device.Mode, device.UID, device.GID) + " open the kernel's channel " + device.Path
}

// InKernel describes a channel of this host whose frames are in the kernel. It returns "" for other channels.
func InKernel(c status.Local) string {
	switch {
	case c.Kind != status.KindKernel:
		return ""
	case c.Missed == 0:
		return "its frames are in the kernel"
	}
	return fmt.Sprintf("its frames are in the kernel, which replaced %d before they were read", c.Missed)
}

// withCopy adds to the diagnosis how many frames of a mirror were copied into the kernel, if the mirror has a copy there.
func (s *Snapshot) withCopy(list []Finding) []Finding {
	m, there := MirrorOf(s.After, s.Host, s.Channel)
	if s.Self || !there || m.Kernel == nil {
		return list
	}
	text := fmt.Sprintf("%d of its frames were copied into the kernel, %d were not", m.Kernel.Written, m.Kernel.Skipped)
	if m.Kernel.Omitted {
		text = "it is not in the kernel: " + m.Kernel.Reason
	}
	list[0].Evidence = append(list[0].Evidence, text)
	return list
}

// hiddenChannel returns the finding that programs do not see a channel of this host. No fix removes the kernel's channel,
// because that can crash the kernel while a program has the channel open.
func hiddenChannel(name, hidden string) Finding {
	return Finding{Cause: status.CauseKernelChannel, Text: name + ": " + hidden, Fix: "have its programs use shared memory, or another name"}
}

// hiddenMirror returns the finding that programs do not see a mirror.
func hiddenMirror(name, hidden string) Finding {
	f := hiddenChannel(name, hidden)
	f.Fix = "give the mirror another name: --as NAME"
	return f
}

// withHidden adds the finding that the kernel's channel hides the snapshot's. Without other problems it is the diagnosis.
func (s *Snapshot) withHidden(list []Finding) []Finding {
	if c, _ := LocalOf(s.After, s.Channel); s.File.Kernel == "" || s.Self && c.Kind == status.KindKernel {
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
