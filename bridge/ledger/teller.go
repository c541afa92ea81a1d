package ledger

import "time"

// Teller decides when an account is told again.
type Teller struct {
	Said, Before Accounts
	at           time.Duration
}

// Due reports whether to tell a now; moving is what grows as long as there is
// traffic.
func (t *Teller) Due(now, every time.Duration, a Accounts, moving func(Accounts) uint64) bool {
	rests := moving(a) == moving(t.Before)
	t.Before = a
	if a == t.Said || !rests && now < t.at+every {
		return false
	}
	t.Said, t.at = a, now
	return true
}
