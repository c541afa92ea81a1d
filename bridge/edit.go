package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// Edit changes fields of the newest frame of a channel of another host, and puts the frame there. That host reads, changes and
// puts it. If a program puts another frame meanwhile, the host begins again with that frame, so an edit never undoes a put. The
// request is sent once. With ErrNoAnswer the frame may have been put. Other errors mean that it was not.
func (n *Node) Edit(ctx context.Context, of rule.Address, fields []wire.FieldEdit) (status.Edit, error) {
	sent := n.now()
	m, err := n.request(ctx, remoteRequest{
		of: of, command: "put",
		message: func(id uint32) wire.Message { return wire.Edit{ID: id, Channel: of.Channel, Fields: fields} },
		support: func(l *link) error {
			if !l.hello.knowsEdits {
				return fmt.Errorf("the achbridge of %s does not know it; update %s", l.host, l.host)
			}
			return nil
		},
		here:   "it is a channel of this host; achbridge channel put puts whole frames into it",
		unsure: "unknown: the frame may have been put",
	})
	if err != nil {
		return status.Edit{}, err
	}
	edited, ok := m.(wire.Edited)
	if !ok || len(edited.Before) != len(fields) {
		return status.Edit{}, fmt.Errorf("put %v: %s sent an answer to something else", of, of.Host)
	}
	e := status.Edit{Host: of.Host, Channel: of.Channel, Seq: edited.Seq, AnswerMs: (n.now() - sent).Seconds() * 1000}
	for i, f := range fields {
		if !f.Expect {
			e.Fields = append(e.Fields, status.FieldEdit{Field: f.Path, Before: edited.Before[i], After: edited.After[i]})
		}
	}
	return e, nil
}

// editAsked answers a peer's request to change fields of a frame. The put can wait for the channel's lock, so it has its own
// goroutine.
func (n *Node) editAsked(l *link, m wire.Edit) {
	types, err := n.editable(l, m.Channel)
	if err != nil {
		l.refusal("edit refused", status.Event{Channel: m.Channel, Text: err.Error()})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeEdit, Code: wire.CodeForbidden, Text: wire.Text(err.Error())})
		return
	}
	dir := n.cfg.Dir
	n.loop.work.Go(func() {
		edited, err := editNewest(dir, m, types)
		n.loop.post(func() {
			if err != nil {
				l.send(wire.Refused{ID: m.ID, Re: wire.TypeEdit, Code: wire.CodeFailed, Text: wire.Text(err.Error())})
				return
			}
			text := editText(m, edited)
			n.events.Record(slog.LevelInfo, "fields changed", status.Event{Kind: status.EventEdited, Host: l.host, Channel: m.Channel, Text: text}, "change", text)
			l.send(edited)
		})
	})
}

// editText describes a frame that was put.
func editText(m wire.Edit, edited wire.Edited) string {
	var changes []string
	for i, f := range m.Fields {
		if !f.Expect {
			changes = append(changes, fmt.Sprintf("%s from %s to %s", f.Path, edited.Before[i], edited.After[i]))
		}
	}
	return fmt.Sprintf("frame %d: %s", edited.Seq, strings.Join(changes, ", "))
}

// editable returns the layout of a channel, or an error if l's peer may not change fields of its frames. Unless an accept rule
// lets the peer push into the channel, the error does not reveal whether the channel exists.
func (n *Node) editable(l *link, channel string) (*layout.Layout, error) {
	if _, ok := l.offers.edits.Cause(n.now()); !ok {
		return nil, errors.New("too many puts; try again in a second")
	}
	_, err := n.cfg.Accept.For(channel, l.host)
	switch {
	case errors.Is(err, rule.ErrNoGrant):
		return nil, fmt.Errorf("%s accepts no puts into %s: no accept rule names it", n.cfg.Host, channel)
	case err != nil:
		return nil, fmt.Errorf("%s does not accept %s: %w", n.cfg.Host, channel, err)
	case !rule.Matches(n.mirrors.adopt, channel):
		return nil, fmt.Errorf("%s does not let others write its channel %s: adopt does not name it", n.cfg.Host, channel)
	case n.hasCommands(channel):
		return nil, fmt.Errorf("the class of %s is command, whose frames only a mirror may put", channel)
	case n.mirrors.isOutput(channel):
		return nil, fmt.Errorf("%s is the output of a mux", channel)
	case n.mirrors.byName[channel] != nil:
		return nil, fmt.Errorf("%s is a mirror of %s; put it there", channel, n.mirrors.byName[channel].Host)
	case n.lockRule(channel) != nil && !n.holdsLock(l, channel):
		return nil, lockError(lockText(n.cfg.Host, n.holderFor(l, channel), wallTime()))
	}
	c := n.locals.Get(channel)
	switch {
	case !c.IsOpen() && c != nil && c.Reason != "":
		return nil, fmt.Errorf("%s: %s", channel, c.Reason)
	case !c.IsOpen():
		return nil, fmt.Errorf("%s has no channel %s", n.cfg.Host, channel)
	case c.IsKernel:
		return nil, fmt.Errorf("%s is a channel of the kernel, which achbridge only reads", channel)
	case c.IsMirror:
		return nil, fmt.Errorf("%s is a mirror", channel)
	case c.Layout == nil || c.Layout.Encoded == nil:
		return nil, fmt.Errorf("%s has no layout: name one under types in the configuration of %s", channel, n.cfg.Host)
	}
	return layout.DecodeLayout(c.Layout.Encoded)
}

// editTries is how often a put is tried if programs put other frames meanwhile.
const editTries = 4

// editNewest changes fields of a channel's newest frame and puts the frame. It waits for the channel's lock for at most 100 ms in
// each try.
func editNewest(dir localach.Dir, m wire.Edit, types *layout.Layout) (wire.Edited, error) {
	ch, err := dir.TryOpen(m.Channel)
	if err != nil {
		return wire.Edited{}, err
	}
	defer ch.Close()
	w := ch.Writer()
	edited := wire.Edited{ID: m.ID}
	for range editTries {
		var frame []byte
		var last uint64
		if frame, last, err = newestFrame(ch); err != nil {
			break
		}
		if edited.Before, edited.After, err = changeFields(types, frame, m.Fields); err != nil {
			break
		}
		if edited.Seq, err = w.PutAfter(last, frame); !errors.Is(err, localach.ErrMoved) {
			break
		}
	}
	if errors.Is(err, localach.ErrMoved) {
		err = fmt.Errorf("%s: programs put new frames too fast: in each of %d tries one was put before ours", m.Channel, editTries)
	}
	_ = w.Close() // the frame is put, even if readers that wait cannot be woken
	return edited, err
}

// newestFrame returns a copy of a channel's newest frame, and its number.
func newestFrame(ch *localach.Channel) (frame []byte, seq uint64, err error) {
	r := ch.Reader()
	n, err := r.Last(nil) // only the size
	for errors.Is(err, io.ErrShortBuffer) {
		frame = make([]byte, n)
		n, err = r.Last(frame)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s has no frame yet, so there are no fields to change", ch.Name())
	}
	return frame[:min(n, len(frame))], r.Seq(), err
}

// changeFields changes fields in a frame, and returns their values before and afterwards. It changes nothing if a field does not
// have the value that an edit expects.
func changeFields(types *layout.Layout, frame []byte, fields []wire.FieldEdit) (before, after []string, err error) {
	root, err := types.Decode(frame)
	if err != nil {
		return nil, nil, fmt.Errorf("the newest frame: %w", err)
	}
	values := make([]layout.Value, len(fields))
	for i, f := range fields {
		if values[i], err = root.Find(f.Path); err != nil {
			return nil, nil, err
		}
		before = append(before, wire.Text(values[i].Text()))
		if !f.Expect {
			continue
		}
		equal, err := values[i].IsEqual(f.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if !equal {
			return nil, nil, fmt.Errorf("%s is %s, not %s: nothing was put", f.Path, before[i], f.Value)
		}
	}
	for i, f := range fields {
		if !f.Expect {
			if err := values[i].Set(f.Value); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		after = append(after, wire.Text(values[i].Text()))
	}
	return before, after, nil
}
