package transport

import (
	"errors"
	"fmt"
	"strings"
)

// trusted is what counts now.
func (e *Endpoint) trusted() *trust { return e.trust.Load() }

// SetKey has the endpoint hold another key from now on, for the same host and node.
// Sessions whose peers are strangers by it end, and tell the peer why; the others
// stay. An error changes nothing.
func (e *Endpoint) SetKey(key Key) error {
	if key.held == nil {
		return errors.New("set key: no network key")
	}
	self := e.trusted().self
	if err := key.fits(self); err != nil {
		return fmt.Errorf("set key: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := newTrust(key, self, e.revoked)
	if err != nil {
		return fmt.Errorf("set key: %w", err)
	}
	e.adopt(t)
	return nil
}

// Revoke has the endpoint trust nobody whose certificate is on a list, as
// Revocations.Bytes has it, if that is newer than the one that counts. Their
// sessions end. Taken tells whether it was newer. A list that our authority has not
// signed is an error.
func (e *Endpoint) Revoke(list []byte) (taken bool, err error) {
	r, err := parseRevocations(list)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.trusted()
	anchor, ok := t.anchor.(*hostAnchor)
	switch {
	case !ok:
		return false, errNoAuthority
	case r.Number() <= anchor.revoked.Number():
		return false, nil
	case !r.signedBy(anchor.key.authority):
		return false, errForged
	}
	e.revoked = r
	e.adopt(&trust{self: t.self, networks: t.networks, anchor: anchor.revoking(r)})
	e.log.Info("list of revocations taken", "number", r.Number(), "count", len(r.serials))
	if r.Has(serialOf(anchor.key.certificate)) {
		e.log.Error("the certificate of this host is revoked: nobody will link with it", "host", t.self.Host)
	}
	return true, nil
}

// Revocations returns the list that counts, nil if there is none.
func (e *Endpoint) Revocations() *Revocations {
	if anchor, ok := e.trusted().anchor.(*hostAnchor); ok {
		return anchor.revoked
	}
	return nil
}

// NamesBind tells whether the host names of peers are proved, and their node ids
// with them. Under a shared key they are claims of members.
func (e *Endpoint) NamesBind() bool {
	_, bind := e.trusted().anchor.(*hostAnchor)
	return bind
}

// Review ends the sessions of those whose certificates have ended. Whoever wants
// that in time calls it every few seconds.
func (e *Endpoint) Review() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.review()
}

// adopt has t count from now on. It needs e.mu.
func (e *Endpoint) adopt(t *trust) {
	e.trust.Store(t)
	e.review()
}

// review ends the sessions of those who are not trusted any more. It needs e.mu.
func (e *Endpoint) review() {
	t := e.trusted()
	for s := range e.sessions {
		err := t.stands(s.proof)
		if err == nil || s.judged {
			continue
		}
		s.judged = true
		e.log.Warn("peer is not trusted any more", "peer", s.peer.Host, "node", s.peer.Node.String(), "err", err)
		e.wg.Go(func() { s.Close(noLonger(err)) })
	}
}

// noLonger is what a peer is told whose session ends because it is not trusted any
// more.
func noLonger(err error) string {
	if errors.Is(err, ErrWrongKey) {
		return "this node has changed its key, and yours is of another network"
	}
	if rest, ok := strings.CutPrefix(err.Error(), "peer's "); ok {
		return "your " + rest
	}
	return err.Error()
}
