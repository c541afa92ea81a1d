package doctor

import (
	"context"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/diagnose"
)

// checkInotify checks that the kernel reports new channels to the daemon, or would to this user.
func checkInotify(_ context.Context, p *patient) result {
	const late = "; channels that appear are noticed up to 250 ms later"
	if p.daemon != nil {
		if why := p.daemon.NoInotify; why != "" {
			return result{State: doubt, Text: "the daemon has none: " + why + late, Fix: diagnose.InotifyFix}
		}
		return result{State: fit, Text: "the kernel reports new channels to the daemon"}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return result{State: doubt, Text: "a daemon of this user would have none: " + err.Error() + late, Fix: diagnose.InotifyFix}
	}
	unix.Close(fd)
	return result{State: fit, Text: "the kernel would report new channels to a daemon of this user"}
}
