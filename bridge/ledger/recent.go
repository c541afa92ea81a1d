package ledger

import "time"

// Recent keeps at most one account for each recentEvery, and recentKept accounts in all.
const (
	recentEvery = time.Second
	recentKept  = 10
)

// Recent keeps a mirror's frame counters of the last ten seconds. The share of lost frames is computed over that window: in the totals
// a jump of the origin's frame numbers would show until the daemon ends. The zero value is ready to use.
type Recent struct {
	kept [recentKept]Accounts // a ring; at first its accounts are zero
	next int                  // index of the oldest account
	at   time.Duration        // when the newest account was kept, 0 before the first
}

// Keep stores the counters at now. It ignores them if the last ones were stored less than a second before.
func (r *Recent) Keep(now time.Duration, a Accounts) {
	if r.at != 0 && now < r.at+recentEvery {
		return
	}
	r.kept[r.next], r.at = a, now
	r.next = (r.next + 1) % recentKept
}

// Growth returns by how much the counters in a exceed those of ten seconds ago.
func (r *Recent) Growth(a Accounts) Accounts { return a.GrownBy(r.kept[r.next]) }
