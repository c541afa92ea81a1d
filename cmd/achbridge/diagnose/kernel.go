package diagnose

import "achbridge/bridge/status"

// HiddenBy is the sentence that who, some programs, open the kernel's channel at path instead of the one in shared memory.
func HiddenBy(path, who string) string {
	return who + " open the kernel's channel " + path + " instead"
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
