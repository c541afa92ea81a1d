package transport

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// trusted is the key and the list of revocations in effect.
func (e *Endpoint) trusted() *trust.Member { return e.member.Load() }

// SetKey replaces the endpoint's key; host and node stay the same. Sessions whose peers
// are strangers under the new key end, and SetKey tells the peers why; the others stay.
// An error changes nothing.
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
	e.log.Info("adopted a newer list of revocations", "number", r.Number(), "count", r.Len())
	if next.IsRevoked() {
		e.log.Error("the certificate of this host is revoked: nobody will link with it", "host", next.Self().Host)
	}
	return true, nil
}

// Revocations returns the list in effect, nil if there is none.
func (e *Endpoint) Revocations() *trust.Revocations { return e.trusted().Revocations() }

// Signer returns the key by which this host signs what others check by Session.SignedBy; nil
// under a shared key. SetKey changes it, but no session that began before: see Signs.
func (e *Endpoint) Signer() crypto.Signer { return e.trusted().Signer() }

// Signs reports whether the peer of s, a session through a hub, can check what Signer signs now:
// this end has shown that certificate when s began.
func (e *Endpoint) Signs(s *session.Session) bool {
	then, now := s.Self().Signer(), e.Signer()
	if then == nil || now == nil {
		return then == nil && now == nil
	}
	public, ok := then.Public().(ed25519.PublicKey)
	return ok && public.Equal(now.Public())
}

// NamesBind reports whether certificates prove the host names and node ids of peers.
// Under a shared key they are claims of members.
func (e *Endpoint) NamesBind() bool { return e.trusted().NamesBind() }

// Review ends the sessions of peers whose certificates have ended. Call it every few
// seconds.
func (e *Endpoint) Review() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.review()
}

// adopt puts member into effect. It needs e.mu.
func (e *Endpoint) adopt(member *trust.Member) {
	e.member.Store(member)
	e.review()
}

// review ends the sessions of peers that are no longer trusted. It needs e.mu.
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

// noLonger is the reason that a peer gets whose session ends since it is no longer trusted.
func noLonger(err error) string {
	if errors.Is(err, trust.ErrWrongKey) {
		return "this node has changed its key, and yours is of another network"
	}
	if bad, ok := errors.AsType[*trust.CertificateError](err); ok {
		return "your " + bad.Told()
	}
	return err.Error()
}
