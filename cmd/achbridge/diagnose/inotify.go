package diagnose

import "achbridge/bridge/status"

// InotifyFix is the fix for a user without free inotify instances.
const InotifyFix = "raise the limit: sysctl fs.inotify.max_user_instances=1024, and in /etc/sysctl.d to keep it"

// noInotify returns the finding that the kernel does not report new channels to the daemon.
func noInotify(s status.Report) Finding {
	return Finding{
		Cause: status.CauseInotify, Text: "the kernel has no inotify for the daemon: channels that appear are noticed up to 250 ms later",
		Evidence: []string{s.NoInotify}, Fix: InotifyFix,
	}
}
