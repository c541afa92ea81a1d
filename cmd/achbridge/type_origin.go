package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

var errNoAnswer = errors.New("its origin cannot be asked")

// originPatience is how long a verb waits for a layout. The daemon needs two seconds at most, if the
// origin does not answer it.
const originPatience = 4 * time.Second

// originLayout asks the daemon what the origin of a mirror says of its frames; nil when it says
// nothing, or when there is nobody to be asked: no daemon, or one that does not know the mirror.
// The error is that it says something which is not here. What comes is checked anew.
func originLayout(ctx context.Context, c *api.Client, name string) (*layout.Layout, error) {
	var r api.LayoutReply
	_, err := c.Within(originPatience).Get(ctx, "/v1/layout?"+url.Values{"of": {name}}.Encode(), &r)
	switch {
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, fs.ErrPermission), errors.Is(err, context.Canceled), ui.ExitCode(err) == ui.ExitNothing:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	case r.Why != "":
		return nil, fmt.Errorf("%s has a layout of %s, but %s", r.Host, r.Channel, r.Why)
	case r.Layout == nil:
		return nil, nil
	}
	l, err := layout.Unpack(r.Layout)
	if err != nil {
		return nil, fmt.Errorf("%s has a layout of %s: %w", r.Host, r.Channel, err)
	}
	return l, nil
}
