package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// checkEvery is the time between two checks that the channel was not removed or replaced.
const checkEvery = time.Second

// feed puts a frame each period until ctx ends, and then logs its counts. It skips periods that it missed: if it put two frames at
// once, a reader of the newest frame would see only one of them.
func (c *claim) feed(ctx context.Context, log *slog.Logger) error {
	writer, frame := c.channel.Writer(), newFrame(c.Size)
	next, counts := c.channel.LastSeq()+1, putCounts{}
	var warnedAt time.Time
	checkedAt := time.Now()
	err := localach.Every(ctx, time.Duration(float64(time.Second)/c.Rate), func() error {
		fill(frame, next)
		begin := time.Now()
		seq, err := writer.Put(frame)
		counts.add(time.Since(begin), err)
		if err == nil {
			next = seq + 1
		} else if time.Since(warnedAt) > time.Second {
			log.Warn("put failed", "channel", c.Name, "err", err, "count", counts.failed)
			warnedAt = time.Now()
		}
		if begin.Sub(checkedAt) > checkEvery {
			checkedAt = begin
			if err := c.channel.Check(); errors.Is(err, localach.ErrUnlinked) || errors.Is(err, localach.ErrReplaced) {
				return ui.Failure(fmt.Errorf("channel %s: %w", c.Name, err), "start publish again")
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, writer.Close())
	}
	log.Info("frames published", "channel", c.Name, "count", counts.all, "failed", counts.failed, "worst_put", counts.worst)
	return writer.Close()
}

// putCounts counts the puts of a feed.
type putCounts struct {
	all, failed int
	worst       time.Duration // longest duration of a put, successful or not
}

func (p *putCounts) add(took time.Duration, err error) {
	p.all++
	if err != nil {
		p.failed++
	}
	p.worst = max(p.worst, took)
}
