package bridge

import (
	"fmt"

	"achbridge/bridge/mirror"
	"achbridge/wire"
)

// maxAssembly bounds the memory in which one peer's large frames are put
// together: one frame of each subscription.
const maxAssembly = 256 << 20

// maxWideAssembly is the part of it for channels above smallMirror that no wish names.
const maxWideAssembly = maxAssembly * 3 / 4

// assembling is how much memory l's subscriptions may need for large frames.
func (l *link) assembling() (bytes int) {
	for _, m := range l.subs {
		bytes += mirror.LargestFrame(m.origin)
	}
	return bytes
}

// mayAssemble says why there is no memory for large frames of c; host as for space.take.
func (l *link) mayAssemble(c wire.Channel, host string) error {
	most, cure := maxAssembly, "mirror fewer of its channels"
	if host != "" && mirror.LargestFrame(c) > mirror.SmallBytes {
		most, cure = maxWideAssembly, "name the channel in a wish of its own, or "+cure
	}
	sum := l.assembling() + mirror.LargestFrame(c)
	if sum <= most {
		return nil
	}
	return fmt.Errorf("%s/%s: frames of up to %d KiB, with those of the other mirrors of %s %d MiB, are %w: it may have %d MiB under way; %s",
		l.host, c.Name, mirror.LargestFrame(c)>>10, l.host, sum>>20, errTooMuch, most>>20, cure)
}
