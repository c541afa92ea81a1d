package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// ErrNoAnswer means that a daemon did not answer what an origin says of its frames.
var ErrNoAnswer = errors.New("its origin cannot be asked")

// LayoutOf is the layout of a channel: as file, of --type, or types: says, or else as the origin of a mirror
// does; nil when it is not known. from says which, as in a recording.
func (h Host) LayoutOf(file string, of View) (l *layout.Layout, from status.TypeSource, err error) {
	find, err := h.Layouts(file)
	if err != nil {
		return nil, "", err
	}
	l, err = find(of.Of, of.Name())
	if err != nil || l != nil || of.Tag() == (localach.Tag{}) {
		return l, status.TypeFromFile, err
	}
	if l, err = OriginLayout(of.Ctx, of.Asks, of.Name()); err != nil {
		h.Note("no type: %v", err)
	}
	return l, status.TypeFromOrigin, nil
}

// Layouts finds the layout of a channel: that of --type, or the one that types: names.
func (h Host) Layouts(file string) (find func(channel, name string) (*layout.Layout, error), err error) {
	if file != "" {
		l, err := config.LoadLayout(file)
		return func(string, string) (*layout.Layout, error) { return l, nil }, err
	}
	c, err := h.Source("", nil).Load()
	if err != nil { // the channel can be looked at all the same
		h.Note("no types: achbridge check says what is wrong with the configuration")
		return func(string, string) (*layout.Layout, error) { return nil, nil }, nil
	}
	return c.LayoutFor, nil
}

// originPatience is how long a verb waits for a layout. The daemon needs two seconds at most, if the
// origin does not answer it.
const originPatience = 4 * time.Second

// OriginLayout asks the daemon what the origin of a mirror says of its frames; nil when it says
// nothing, or when there is nobody to be asked: no daemon, or one that does not know the mirror.
// The error is that it says something which is not here. What comes is checked anew.
func OriginLayout(ctx context.Context, c *api.Client, name string) (*layout.Layout, error) {
	var r api.LayoutReply
	_, err := c.Within(originPatience).Get(ctx, "/v1/layout?"+url.Values{"of": {name}}.Encode(), &r)
	switch {
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, fs.ErrPermission), errors.Is(err, context.Canceled), ui.ExitCode(err) == ui.ExitNothing:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
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
