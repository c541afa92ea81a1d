package hub

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"achbridge/bridge/logline"
)

// natsLog takes what the nats-server says into our log. What matters to the operator we say in
// our own words; of the rest its warnings are told, few of them, for strangers can cause them.
type natsLog struct {
	log   *slog.Logger
	fatal chan string // what keeps it from working

	mu    sync.Mutex
	limit logline.Limit
	began time.Time
}

func (l *natsLog) Noticef(format string, v ...any) {
	l.log.Debug("nats-server says", "text", fmt.Sprintf(format, v...))
}

func (l *natsLog) Debugf(string, ...any) {}
func (l *natsLog) Tracef(string, ...any) {}

func (l *natsLog) Warnf(format string, v ...any)  { l.warn(format, v) }
func (l *natsLog) Errorf(format string, v ...any) { l.warn(format, v) }

func (l *natsLog) warn(format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, server.ErrAuthentication.Error()) { // the guard has said why
		return
	}
	l.mu.Lock()
	if l.began.IsZero() {
		l.began, l.limit = time.Now(), logline.Limit{Burst: 5, Period: 10 * time.Second}
	}
	count, due := l.limit.Cause(time.Since(l.began))
	l.mu.Unlock()
	if due {
		l.log.Warn("nats-server says", "text", text, "count", count)
	}
}

// Fatalf does not end the process, as the server's own logger does.
func (l *natsLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default: // the first one counts
	}
}
