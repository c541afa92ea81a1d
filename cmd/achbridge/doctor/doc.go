// Package doctor checks a host for faults that keep channels from being mirrored: multicast,
// ports, buffers, shared memory, clocks, C libraries, the key, the user of the daemon.
//
//	h := doctor.Host{Host: view.Host{Places: places, Dir: localach.Shm}, TryPorts: daemon.TryPorts}
//	report, err := doctor.Examine(ctx, h, "", "")
//	report.Show(terminal) // a line for each check, with its fix
//	ok := report.Fit      // no check failed
//
// Each check is a function and reports on one subject. The checks change nothing. They send
// one multicast query.
package doctor
