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

// ErrNoAnswer means that the daemon did not return the layout of an origin.
var ErrNoAnswer = errors.New("its origin cannot be asked")

// LayoutOf returns the layout of a channel: that of file (--type), of the key types in the configuration, of the
// publisher, or of the mirror's origin. It returns nil if there is none. from is the source of the layout, as in a recording.
func (h Host) LayoutOf(file string, of View) (l *layout.Layout, from status.TypeSource, err error) {
	find, err := h.LocalLayouts(file)
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

// LocalLayouts returns a function as Layouts does, which also finds the layout of a channel of this host that
// `achbridge publish` has made.
func (h Host) LocalLayouts(file string) (find func(channel, name string) (*layout.Layout, error), err error) {
	typed, err := h.Layouts(file)
	return func(channel, name string) (*layout.Layout, error) {
		if l, err := typed(channel, name); l != nil || err != nil {
			return l, err
		}
		return config.PublishedLayout(h.Dir, name), nil
	}, err
}

// Layouts returns a function that finds the layout of a channel: that of file (--type), or of the key types.
func (h Host) Layouts(file string) (find func(channel, name string) (*layout.Layout, error), err error) {
	if file != "" {
		l, err := config.LoadLayout(file)
		return func(string, string) (*layout.Layout, error) { return l, nil }, err
	}
	c, err := h.Source("", nil).Load()
	if err != nil { // a channel can also be read without a layout
		h.Note("cannot read types; achbridge check lists the errors of the configuration")
		return func(string, string) (*layout.Layout, error) { return nil, nil }, nil
	}
	return c.LayoutFor, nil
}

// originPatience is the time that a command waits for a layout. The daemon answers within two seconds, even if the
// origin does not.
const originPatience = 4 * time.Second

// OriginLayout asks the daemon for the layout that the origin of a mirror has. It returns nil if the origin
// has none, no daemon runs, or the daemon does not know the mirror. It returns an error if the origin has
// a layout that cannot be had now. The received layout is checked again.
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
	l, err := layout.DecodeLayout(r.Layout)
	if err != nil {
		return nil, fmt.Errorf("%s has a layout of %s: %w", r.Host, r.Channel, err)
	}
	return l, nil
}
