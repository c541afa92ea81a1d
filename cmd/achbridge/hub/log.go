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

// natsLog writes messages of the nats-server into our log. The hub itself logs the events that
// matter to the operator. Warnings of the server are rate-limited, since unknown peers can cause them.
type natsLog struct {
	log   *slog.Logger
	fatal chan string // first fatal error of the server

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
	if strings.Contains(text, server.ErrAuthentication.Error()) { // the guard has logged the reason
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

// Fatalf sends the message to fatal. Unlike the server's own logger, it does not end the process.
func (l *natsLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default: // only the first message is used
	}
}
