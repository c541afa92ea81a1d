package status

// Cause is a machine-readable reason why frames do not arrive, or arrive late. Listed values do not change; new
// ones may be added.
type Cause string

// Causes of problems with a channel.
const (
	CausePublisherStopped Cause = "publisher_stopped"
	CausePublisherSlow    Cause = "publisher_slow" // the publisher puts less often than the deadline requires
	CauseNoChannel        Cause = "no_channel"     // the origin has no channel of that name, or does not offer it
	CauseRule             Cause = "rule"           // this host's configuration does not request the channel, or denies it
	CauseExportRule       Cause = "export_rule"    // the origin's export rules deny reading the channel
	CauseAcceptRule       Cause = "accept_rule"    // the receiver's accept rules refuse the push
	CauseFileMode         Cause = "file_mode"      // a channel's file may not be opened or created
	CauseKey              Cause = "key"            // the hosts have different keys
	CauseRevoked          Cause = "revoked"        // a host's certificate is revoked
	CauseCertificate      Cause = "certificate"    // a host's certificate has expired, or a clock is wrong
	CausePeerMissing      Cause = "peer_missing"   // the peer was never seen
	CausePeerSilent       Cause = "peer_silent"    // the peer is known but does not answer
	CauseMulticast        Cause = "multicast_blocked"
	CauseLinkRate         Cause = "link_rate"
	CauseLoss             Cause = "loss"
	CauseBudget           Cause = "budget" // the budget is too short for the frame size, the link's rate and the path
	CauseClock            Cause = "clock"  // the peer's clock is not known accurately enough
	CauseShmFull          Cause = "shm_full"
	CauseShmShare         Cause = "shm_share"      // mirrors of patterns and pushes have used up their share of shared memory
	CauseHostBusy         Cause = "host_busy"      // a daemon does not get the CPU in time
	CauseSeldomWatched    Cause = "seldom_watched" // frames are put more often than the daemon can poll
	CauseReceiverSlow     Cause = "receiver_slow"  // a local process holds the mirror's lock
	CauseCorrupt          Cause = "corrupt"        // a channel's file is corrupt
	CauseAch1x            Cause = "ach_1x"         // created by Ach 1.x: intact, but only Ach 1.x programs can use it
	CauseAch32Bit         Cause = "ach_32bit"      // created by a 32-bit program: intact, but only such programs can use it
	CauseOtherLibc        Cause = "other_libc"     // created with another C library: intact, but only programs with that library can use it
	CauseFrameSize        Cause = "frame_size"     // frames are too large for the channel that they must be put into
	CauseBadFrame         Cause = "bad_frame"      // the ring holds a frame that is too large to send, or that was never put
	CauseLimit            Cause = "limit"          // a limit of package bridge (limits.go) is reached
	CauseLoop             Cause = "loop"
	CauseReaderKilled     Cause = "reader_killed"  // a reader was killed or stopped while it waited, so a put hangs
	CauseForeignWriter    Cause = "foreign_writer" // another process writes into the mirror too
	CauseTypeMismatch     Cause = "type_misfit"    // frames do not match their channel's layout, so that their values cannot be shown
	CauseKernelChannel    Cause = "kernel_channel" // programs open a channel of the Ach kernel module with the same name instead
	CauseKernelMirror     Cause = "kernel_mirror"  // the copy of the mirror in the kernel gets no frames
	CauseInotify          Cause = "inotify"        // the kernel's inotify limit is reached, so new channels are noticed later
	CauseCopiedImage      Cause = "copied_image"   // another machine has the host's node ID
	CauseOtherMachine     Cause = "other_machine"  // the host runs on another machine than before; commands and pushes to it wait
	CauseOperator         Cause = "operator"       // another host holds the operator lock of the channel, or nobody does
	CauseOther            Cause = "other"          // described by the text only
)
