package daemon

import (
	"errors"
	"log/slog"

	"achbridge/bridge"
	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
	"achbridge/localach"
	"achbridge/localach/kernel"
)

// kernelChannels returns the kernel's channels as far as the configuration uses them, else nil. Kernel channels of an earlier
// daemon that made mirrors there are removed if this one makes none.
func kernelChannels(use config.Kernel, dir localach.Dir, log *slog.Logger) (bridge.Kernel, mirror.Kernel) {
	channels := kernel.New(dir)
	if use == config.KernelMirrors {
		return channels, kernelMirrors{channels}
	}
	for _, err := range channels.RemoveAll() {
		log.Warn("kernel channel stays, without new frames", "err", err)
	}
	if use == config.KernelExports {
		return channels, nil
	}
	return nil, nil
}

// kernelMirrors converts the copies of package kernel to the types of package mirror.
type kernelMirrors struct{ *kernel.Channels }

func (k kernelMirrors) Copy(file *localach.Channel, isEvery bool) mirror.KernelCopy {
	return kernelMirror{k.Channels.Copy(file, isEvery)}
}

type kernelMirror struct{ *kernel.Copy }

func (k kernelMirror) State() status.KernelCopy {
	counts, err := k.Copy.State()
	s := status.KernelCopy{Written: counts.Written, Skipped: counts.Skipped, Foreign: counts.Foreign}
	if err != nil {
		s.Reason, s.Omitted = err.Error(), errors.Is(err, kernel.ErrTooLarge)
	}
	return s
}
