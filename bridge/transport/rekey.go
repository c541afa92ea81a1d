package transport

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// trusted returns the membership in effect: the key and the list of revocations.
func (e *Endpoint) trusted() *trust.Member { return e.member.Load() }

// SetKey replaces the endpoint's key; host and node stay the same. It closes the sessions of
// peers that the new key does not accept, with the reason; the others stay. If it returns an
// error, nothing has changed.
func (e *Endpoint) SetKey(key trust.Key) error {
	if key.IsZero() {
		return errors.New("set key: no network key")
	}
	self := e.trusted().Self()
	if err := key.Fits(self); err != nil {
		return fmt.Errorf("set key: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	member, err := trust.NewMember(key, self, e.revoked)
	if err != nil {
		return fmt.Errorf("set key: %w", err)
	}
	e.adopt(member)
	return nil
}

// Revoke adopts a list of revocations, as trust.Revocations.Bytes returns it, if it is
// newer than the current one, and ends the sessions of revoked hosts. It reports whether
// the list was newer. A list that our authority has not signed is an error.
func (e *Endpoint) Revoke(list []byte) (taken bool, err error) {
	r, err := trust.DecodeRevocations(list)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.trusted()
	next, err := now.WithRevocations(r)
	if err != nil || next == now {
		return false, err
	}
	e.revoked = r
	e.adopt(next)
	e.log.Info("newer revocation list adopted", "number", r.Number(), "count", r.Len())
	if next.IsRevoked() {
		e.log.Error("certificate of this host is revoked, no host will link with it", "host", next.Self().Host)
	}
	return true, nil
}

// Revocations returns the list of revocations in effect, or nil if there is none.
func (e *Endpoint) Revocations() *trust.Revocations { return e.trusted().Revocations() }

// Signer returns the key with which this host signs data that others verify by
// Session.SignedBy. It is nil under a shared key. SetKey changes it, but existing sessions keep
// the former certificate: see Signs.
func (e *Endpoint) Signer() crypto.Signer { return e.trusted().Signer() }

// Signs reports whether the peer of s, a session through a hub, can verify signatures by the
// current Signer. It can if this end presented that certificate when s began.
func (e *Endpoint) Signs(s *session.Session) bool {
	then, now := s.Self().Signer(), e.Signer()
	if then == nil || now == nil {
		return then == nil && now == nil
	}
	public, ok := then.Public().(ed25519.PublicKey)
	return ok && public.Equal(now.Public())
}

// NamesBind reports whether certificates prove the host names and node ids of peers. Under a
// shared key a member may claim any of them.
func (e *Endpoint) NamesBind() bool { return e.trusted().NamesBind() }

// Review closes the sessions of peers whose certificates have expired. Call it every few
// seconds.
func (e *Endpoint) Review() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.review()
}

// adopt puts member into effect. e.mu must be held.
func (e *Endpoint) adopt(member *trust.Member) {
	e.member.Store(member)
	e.review()
}

// review closes the sessions of peers that are no longer trusted. e.mu must be held.
func (e *Endpoint) review() {
	member := e.trusted()
	for s := range e.sessions {
		err := member.Stands(s.Proof())
		if err == nil || e.sessions[s] {
			continue
		}
		e.sessions[s] = true
		e.log.Warn("peer is not trusted any more", "peer", s.Peer().Host, "node", s.Peer().Node.String(), "err", err)
		e.wg.Go(func() { s.Close(noLonger(err)) })
	}
}

// noLonger returns the reason that is sent to a peer that is no longer trusted.
func noLonger(err error) string {
	if errors.Is(err, trust.ErrWrongKey) {
		return "this node has changed its key, and yours is of another network"
	}
	if bad, ok := errors.AsType[*trust.CertificateError](err); ok {
		return "your " + bad.Reported()
	}
	return err.Error()
}
