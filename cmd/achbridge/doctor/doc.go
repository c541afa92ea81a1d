// Package doctor looks a host over for what keeps channels from being carried: multicast,
// ports, buffers, shared memory, clocks, C libraries, the key, the user of the daemon.
//
//	h := doctor.Host{Places: places, Dir: localach.Shm, Client: client, TryPorts: daemon.TryPorts}
//	report, err := doctor.Examine(ctx, h, "", "")
//	report.Show(terminal) // a line for each check, with its cure
//	ok := report.Fit      // nothing fails
//
// Each check is a function of its own and tells of one thing. Nothing is changed; a
// question goes out by multicast.
package doctor
