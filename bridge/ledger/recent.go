package ledger

import "time"

// Recent keeps at most one account a second and recentKept of them. recentKept is also the window, in seconds.
const (
	recentEvery = time.Second
	recentKept  = 10
)

// Recent keeps the accounts of the last ten seconds. Shares of the frames are computed over that window, since totals keep a jump of an
// origin's frame numbers until the daemon ends. The zero value is ready to use.
type Recent struct {
	kept [recentKept]Accounts // a ring, which begins with accounts of nothing
	next int                  // index of the oldest one
	at   time.Duration        // when the newest one was kept; 0: none was
}

// Keep takes the account at now.
func (r *Recent) Keep(now time.Duration, a Accounts) {
	if r.at != 0 && now < r.at+recentEvery {
		return
	}
	r.kept[r.next], r.at = a, now
	r.next = (r.next + 1) % recentKept
}

// Growth returns by how much a exceeds the account of ten seconds ago.
func (r *Recent) Growth(a Accounts) Accounts { return a.GrownBy(r.kept[r.next]) }
