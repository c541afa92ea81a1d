package view

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// View is a channel to read: one of this host, or the mirror of another host's.
type View struct {
	*localach.Channel
	Of    string          // name as the user gave it
	Asks  *api.Client     // client of the daemon
	Ctx   context.Context // also ends with the mirror
	fresh bool            // the mirror was made empty, so its first frame may be older than the view
	close func()
}

// openView opens a channel of this host by its name. HOST/CHANNEL is mirrored by the daemon
// until the view is closed.
func (h Host) openView(ctx context.Context, c *api.Client, of string) (l View, err error) {
	if c == nil || !strings.Contains(of, "/") {
		ch, err := h.Open(of)
		if err != nil {
			return l, err
		}
		return View{ch, of, cmp.Or(c, h.Client("")), ctx, false, func() { ch.Close() }}, nil
	}
	if _, err := rule.ParseChannel(of); err != nil {
		return l, ui.Usage(err, "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p, gone, err := c.MirrorTemporarily(ctx, of)
	if err != nil {
		cancel(nil)
		return l, err
	}
	go func() { cancel(<-gone) }()
	ch, err := h.Open(p.Mirror)
	if err != nil {
		cancel(nil)
		return l, err
	}
	return View{ch, of, c, ctx, p.Temporary && ch.LastSeq() == 0, func() {
		ch.Close()
		cancel(nil)
	}}, nil
}

// Follow calls read with the channel that openView opens. After the mirror of another host's
// channel was replaced, it opens the channel again.
func (h Host) Follow(ctx context.Context, c *api.Client, of string, read func(View) error) error {
	for {
		l, err := h.openView(ctx, c, of)
		if err != nil {
			return err
		}
		err = read(l)
		name, over := l.Name(), l.ended(ctx)
		l.close()
		anew := errors.Is(err, localach.ErrUnlinked) || errors.Is(err, localach.ErrReplaced) || errors.Is(err, localach.ErrCorrupt)
		switch {
		case over != nil:
			return over
		case err == nil:
			return nil
		case c == nil || name == of || !anew || ctx.Err() != nil:
			return h.ChannelError(name, err)
		}
	}
}

// ended returns the error for a view that ended before ctx, or nil if ctx ended.
func (l View) ended(ctx context.Context) error {
	if ctx.Err() == nil && l.Ctx.Err() != nil {
		return context.Cause(l.Ctx)
	}
	return nil
}
