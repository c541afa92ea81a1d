package status

// Cause is why frames do not come, or come late, in a word for programs. Those that are
// listed here stay what they are; there may be more.
type Cause string

// What can be the matter with a channel.
const (
	CausePublisherStopped Cause = "publisher_stopped"
	CausePublisherSlow    Cause = "publisher_slow" // it puts less often than the deadline asks for
	CauseNoChannel        Cause = "no_channel"     // its origin has none of that name, or does not offer it
	CauseRule             Cause = "rule"           // the configuration of this host does not ask for it, or denies it
	CauseExportRule       Cause = "export_rule"    // the origin's rules do not let it be read
	CauseAcceptRule       Cause = "accept_rule"    // a push is refused by the rules of whom it is for
	CauseFileMode         Cause = "file_mode"      // a channel's file may not be opened or made
	CauseKey              Cause = "key"            // the hosts have different keys
	CauseRevoked          Cause = "revoked"        // a host's certificate is
	CauseCertificate      Cause = "certificate"    // it has ended, or a clock is wrong
	CausePeerMissing      Cause = "peer_missing"   // never seen
	CausePeerSilent       Cause = "peer_silent"    // known, and does not answer
	CauseMulticast        Cause = "multicast_blocked"
	CauseLinkRate         Cause = "link_rate"
	CauseLoss             Cause = "loss"
	CauseBudget           Cause = "budget" // too short for the frame's size, the link's rate and the way
	CauseClock            Cause = "clock"  // the other host's is not known well enough
	CauseShmFull          Cause = "shm_full"
	CauseShmShare         Cause = "shm_share"      // mirrors that no rule names have used up their share of shared memory
	CauseHostBusy         Cause = "host_busy"      // a daemon does not get the processor in time
	CauseSeldomWatched    Cause = "seldom_watched" // frames are put more often than the watcher can look
	CauseReceiverSlow     Cause = "receiver_slow"  // a local process sits on the mirror's lock
	CauseCorrupt          Cause = "corrupt"        // a channel's file is
	CauseAch1x            Cause = "ach_1x"         // Ach 1.x made the channel: whole, but only its own programs can use it
	CauseAch32Bit         Cause = "ach_32bit"      // a 32-bit program made it, as before
	CauseOtherLibc        Cause = "other_libc"     // a program with another C library made it, as before
	CauseFrameSize        Cause = "frame_size"     // frames are too large for the channel that they are to be put into
	CauseBadFrame         Cause = "bad_frame"      // what its ring holds is too large to be sent, or was never put
	CauseLimit            Cause = "limit"          // one of doc.go's, or of limits.go, is reached
	CauseLoop             Cause = "loop"
	CauseForeignWriter    Cause = "foreign_writer" // somebody else writes into the mirror too
	CauseTypeMisfit       Cause = "type_misfit"    // frames do not fit the type of their channel: nothing shows their values
	CauseKernelChannel    Cause = "kernel_channel" // programs open the kernel's channel of that name instead
	CauseInotify          Cause = "inotify"        // the kernel has none left for the daemon: new channels are noticed later
	CauseCopiedImage      Cause = "copied_image"   // another machine has the host's node id
	CauseOtherMachine     Cause = "other_machine"  // the host runs on another machine than before: commands and pushes for it wait
	CauseOther            Cause = "other"          // see the text
)
