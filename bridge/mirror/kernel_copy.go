package mirror

import (
	"cmp"
	"log/slog"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Kernel makes kernel channels with copies of mirrors. Package localach/kernel has it, except for the types of results.
type Kernel interface {
	// Copy copies the frames of a mirror's file into the kernel channel of the same name, which it makes if needed. With
	// isEvery it copies each frame, otherwise the newest. It does not block.
	Copy(file *localach.Channel, isEvery bool) KernelCopy
	// Remove removes a kernel channel that Copy made, if there is one. It can block. The copy must be closed.
	Remove(name string) error
}

// KernelCopy is a kernel channel with the frames of a mirror.
type KernelCopy interface {
	// Wake makes the copy look for new frames. It does not block.
	Wake()
	// State returns the state of the copy. It does not block.
	State() status.KernelCopy
	// Close ends the copy. It blocks for a second at most.
	Close()
}

// kernelCopy is the copy of a mirror's file in the kernel. It is guarded by the mirror's mu.
type kernelCopy struct {
	KernelCopy
	isEvery bool
	foreign uint64 // frames by foreign writers that are counted already
	failure string // last error that was logged
}

// copyToKernel starts or ends the copy of the mirror's file, as the quality of service requires. m.mu must be held.
//
// Commands are not copied: a frame that waits for the kernel channel cannot be taken back when it expires, or when the operator
// lock is lost. A mirror with permissions of its own is not copied, since udev determines those of a device. A channel of another program gets no copy either, which would hide it from its own readers.
func (m *Mirror) copyToKernel() {
	isWanted := m.Kernel != nil && m.file.ch != nil && m.file.owned && !m.Temporary && m.Mode == 0 && m.qos.Class != rule.Command
	isEvery := m.qos.Mode != rule.Newest || m.IsMerge
	k := m.file.kernel
	if k != nil && (!isWanted || k.isEvery != isEvery) {
		m.endKernelCopy(!isWanted)
		k = nil
	}
	if k == nil && isWanted {
		m.file.kernel = &kernelCopy{KernelCopy: m.Kernel.Copy(m.file.ch, isEvery), isEvery: isEvery}
	}
}

// endKernelCopy ends the copy, if there is one. If mustRemove is set it also removes the kernel channel. m.mu must be held.
func (m *Mirror) endKernelCopy(mustRemove bool) {
	k := m.file.kernel
	m.file.kernel = nil
	if m.Kernel == nil || k == nil && !mustRemove {
		return
	}
	m.Spawn(func() {
		if k != nil {
			k.Close()
		}
		if !mustRemove {
			return
		}
		if err := m.Kernel.Remove(m.Name); err != nil {
			m.Events.Record(slog.LevelWarn, "kernel channel stays", m.event(status.EventUnusable, err.Error()), "err", err)
		}
	})
}

// wakeKernelCopy copies the frame that was just put. m.mu must be held.
func (m *Mirror) wakeKernelCopy() {
	if m.file.kernel != nil {
		m.file.kernel.Wake()
	}
}

// checkKernelCopy counts the foreign frames in the kernel channel, and logs why frames cannot be copied. m.mu must be held.
func (m *Mirror) checkKernelCopy() {
	k := m.file.kernel
	if k == nil {
		return
	}
	s := k.State()
	if s.Foreign > k.foreign {
		m.noteForeignFrames(s.Foreign - k.foreign)
		k.foreign = s.Foreign
	}
	if s.Reason != k.failure && s.Reason != "" {
		m.Events.Record(slog.LevelWarn, "mirror not in the kernel", m.event(status.EventUnusable, notInKernel(s)), "err", s.Reason)
	}
	k.failure = s.Reason
}

// notInKernel returns why a mirror has no copy in the kernel that gets its frames.
func notInKernel(s status.KernelCopy) string {
	return "not in the kernel: " + s.Reason + "; the mirror in shared memory gets its frames"
}

// showKernelCopy adds the copy in the kernel, if there is one, to the status. m.mu must be held.
func (m *Mirror) showKernelCopy(s *status.Mirror) {
	k := m.file.kernel
	if k == nil {
		return
	}
	state := k.State()
	s.Kernel = &state
	if state.Reason == "" || state.Omitted {
		return
	}
	if s.State == status.MirrorLive || s.State == status.MirrorForeignWriter {
		s.State = status.MirrorRefused
	}
	if s.State == status.MirrorRefused {
		s.Reason, s.Cause = cmp.Or(s.Reason, notInKernel(state)), cmp.Or(s.Cause, status.CauseKernelMirror)
	}
}
