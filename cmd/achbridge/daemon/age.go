package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// age measures the age of a mirror, which the query gives as HOST/CHANNEL or by the mirror's
// name. If ctx ends before the window, age returns the measurements so far.
func (c *control) age(ctx context.Context, query url.Values) (r status.AgeReport, err error) {
	r, err = c.ageWithin(ctx, query)
	if errors.Is(err, context.Canceled) && r.Window != nil {
		err = nil
	}
	return r, err
}

func (c *control) ageWithin(ctx context.Context, query url.Values) (r status.AgeReport, err error) {
	of := query.Get("of")
	window, err := windowOf(query, "")
	if err != nil {
		return r, err
	}
	for _, m := range c.node.StatusNow().Mirrors {
		if of != m.Name && strings.TrimPrefix(of, "ach://") != m.Host+"/"+m.Channel {
			continue
		}
		r, err = c.node.Age(ctx, m.Name, window)
		if errors.Is(err, fs.ErrNotExist) { // the mirror is requested but has no file yet
			return status.AgeReport{Host: m.Host, Channel: m.Channel, Name: m.Name}, nil
		}
		return r, err
	}
	return c.ageForAWhile(ctx, of, window)
}

// ageForAWhile measures the age of a channel by a temporary mirror.
func (c *control) ageForAWhile(ctx context.Context, of string, window time.Duration) (r status.AgeReport, err error) {
	a, err := rule.ParseChannel(of)
	if err != nil {
		return r, fmt.Errorf("no mirror has the name or source %q: see achbridge status%.0w", of, fs.ErrNotExist)
	}
	m, end, err := c.temporaryMirror(ctx, a)
	if err != nil {
		return r, err
	}
	defer end()
	return c.node.Age(ctx, m.Name, window)
}
