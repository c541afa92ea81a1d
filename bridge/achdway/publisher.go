package achdway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// Publisher sends a channel of this host to a host that runs achd but not achbridge.
type Publisher struct {
	hosts  *Hosts
	push   rule.Push
	report Report
	stop   context.CancelFunc
	logged string // problem that was logged last; empty if none was logged since the host accepted frames
}

// Report is called on the node's goroutine with the reason why the host does not get the frames. reason is empty when
// the host starts to accept them.
type Report func(reason string, cause status.Cause)

// Publish sends the channel of push until Stop is called, and reports each change. It returns nil if the host's name is
// not an address.
func (h *Hosts) Publish(push rule.Push, report Report) *Publisher {
	h.explain()
	to, err := rule.ParseAchd(push.Host)
	if err != nil {
		report(err.Error(), status.CauseRule)
		return nil
	}
	ctx, stop := context.WithCancel(h.ctx)
	p := &Publisher{hosts: h, push: push, report: report, stop: stop}
	report(fmt.Sprintf("connecting to achd at %s, port %s", to.Host, to.Port), "")
	remote := h.remote(to, push.NameThere(), push.QoS)
	h.cfg.Spawn(func() {
		h.keepConnecting(ctx, func() (time.Duration, error) { return p.connect(ctx, remote) }, p.ended)
	})
	return p
}

// Stop stops sending.
func (p *Publisher) Stop() { p.stop() }

// QoS returns the quality of service with which the channel is sent.
func (p *Publisher) QoS() rule.QoS { return p.push.QoS }

// connect runs one connection. It returns the time at which the connection was established (0 if it was not) and why it
// ended.
func (p *Publisher) connect(ctx context.Context, remote achd.Remote) (up time.Duration, err error) {
	cfg, channel := &p.hosts.cfg, p.push.Channel
	ch, err := cfg.Dir.TryOpenToRead(channel)
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	err = remote.Push(ctx, achd.Outgoing{
		Channel: ch, NewData: cfg.Source.NewData, May: func() error { return cfg.MayPublish(channel) },
		Begun: func() {
			up = cfg.Now()
			p.hosts.call(ctx, p.accepted)
		},
	})
	return up, err
}

// accepted handles that the host has begun to accept frames.
func (p *Publisher) accepted() {
	p.hosts.cfg.Log.Info("achd host takes a channel", "peer", p.push.Host, "channel", p.push.Channel)
	p.logged = ""
	p.report("", "")
}

// ended handles the end of a connection, or a failed attempt to connect.
func (p *Publisher) ended(err error) {
	text, cause := "achd there: "+err.Error(), causeOfEnd(err)
	switch {
	case errors.Is(err, ErrCommand), errors.Is(err, ErrEcho):
		text, cause = err.Error(), status.CauseRule
	case errors.Is(err, achd.ErrRefused):
		cause = status.CauseAcceptRule
	}
	if p.logged != text {
		p.hosts.cfg.Warn("achd's host does not take a channel; it is asked again and again",
			status.Event{Kind: status.EventPeerUnreachable, Host: p.push.Host, Channel: p.push.Channel, Text: text}, "err", err)
		p.logged = text
	}
	p.report(text, cause)
}
