package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
)

// Time limits for the wait for a channel of another host: temporaryMirrorPoll if the host is linked or
// unknown, temporaryMirrorWait if the node must dial the host first.
const (
	temporaryMirrorPoll = time.Second
	temporaryMirrorWait = 4 * time.Second
)

// mirrorTemporarily replies with the mirror of a channel, and keeps a temporary mirror until the client
// closes the connection.
func (c *control) mirrorTemporarily(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the read deadline would end the request
	a, err := rule.ParseChannel(r.URL.Query().Get("of"))
	if err != nil {
		reply(w, nil, badRequest{err})
		return
	}
	m, end, err := c.temporaryMirror(r.Context(), a)
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer end()
	reply(w, api.TemporaryMirrorReply{Mirror: m.Name, Temporary: m.Temporary}, nil)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// temporaryMirror returns a mirror of a channel once the mirror is live, stale or contested. The caller
// must call end, which lets the node remove a temporary mirror, unless err is set.
func (c *control) temporaryMirror(ctx context.Context, a rule.Address) (found status.Mirror, end func(), err error) {
	if end, err = c.node.MirrorTemporarily(a.Host, a.Channel); err != nil {
		return found, nil, err
	}
	request, requested := c.node.MirrorRequest(a.Host, a.Channel)
	ctx, cancel := context.WithTimeout(ctx, temporaryMirrorWait)
	defer cancel()
	began := time.Now()
	c.node.Await(ctx, func() bool {
		s := c.node.StatusNow()
		// The mirror of a viewer that has just ended still exists for a moment, under another name.
		if m, ok := diagnose.MirrorOf(s, a.Host, a.Channel); ok && (!requested || m.Name == request.Name(a.Host, a.Channel)) {
			found = m
		}
		dialled := slices.ContainsFunc(s.Peers, func(p status.Peer) bool { return p.Host == a.Host && p.State != status.PeerLinked })
		return found.State != "" && found.State != status.MirrorWaiting || !dialled && time.Since(began) > temporaryMirrorPoll
	})
	if slices.Contains([]status.MirrorState{status.MirrorLive, status.MirrorStale, status.MirrorForeignWriter}, found.State) {
		return found, end, nil
	}
	end()
	if found.Reason == "" {
		return found, nil, c.absent(a)
	}
	return found, nil, fmt.Errorf("%s: %s: %s", a, found.State, found.Reason)
}

// absent returns an error with the reason why a channel cannot be mirrored.
func (c *control) absent(a rule.Address) error {
	if a.Host == c.self.Host {
		return fmt.Errorf("%s: %s is this host: name only the channel, %s%.0w", a, a.Host, a.Channel, fs.ErrNotExist)
	}
	if _, linked := diagnose.LinkOf(c.node.StatusNow(), a.Host); linked {
		return fmt.Errorf("%s: %s offers no such channel; achbridge ls %s lists those that it does%.0w", a, a.Host, a.Host, fs.ErrNotExist)
	}
	return fmt.Errorf("%s: no link to %s; achbridge status lists the peers%.0w", a, a.Host, fs.ErrNotExist)
}
