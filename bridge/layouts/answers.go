package layouts

import (
	"time"

	"golang.org/x/time/rate"
)

// AnswerLimit bounds the layouts that one peer is sent, so that its requests take little capacity of the link from
// frames. It allows 1 MiB at once, then 100 KiB a second, and MaxUnanswered requests that wait for another host's
// answer.
type AnswerLimit struct {
	bytes   *rate.Limiter // in units of answerUnit
	waiting int
}

const answerUnit = 1 << 10

// NewAnswerLimit returns the AnswerLimit of a new link.
func NewAnswerLimit() AnswerLimit {
	return AnswerLimit{bytes: rate.NewLimiter(rate.Every(10*time.Millisecond), 1024)}
}

// Allows reports whether the peer may get another layout now.
func (a *AnswerLimit) Allows(now time.Time) bool {
	return a.bytes.TokensAt(now) >= 1 && a.waiting < MaxUnanswered
}

// Sent counts a layout of size bytes that was sent to the peer.
func (a *AnswerLimit) Sent(now time.Time, size int) { a.bytes.ReserveN(now, 1+size/answerUnit) }

// Wait counts a request of the peer that waits for another host's answer, until the returned function is called.
func (a *AnswerLimit) Wait() (end func()) {
	a.waiting++
	return func() { a.waiting-- }
}
