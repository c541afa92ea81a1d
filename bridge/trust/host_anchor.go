package trust

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	// ErrRevoked is returned when the authority has revoked a certificate: the peer's, or ours
	// if the error's text names it.
	ErrRevoked = errors.New("certificate is revoked")
	// ErrNotNow is returned when a certificate has expired, or when a clock is wrong.
	ErrNotNow = errors.New("certificate is not valid now")
)

// CertificateError is the reason for refusing a peer's certificate that our authority has
// signed. It wraps ErrRevoked or ErrNotNow.
type CertificateError struct {
	err    error
	detail string
}

func (e *CertificateError) Error() string { return "peer's " + e.Reported() }

func (e *CertificateError) Unwrap() error { return e.err }

// Reported returns the error's text without the owner of the certificate.
func (e *CertificateError) Reported() string { return e.err.Error() + e.detail }

const (
	// sessionLifetime is the validity of a certificate that a host signs for itself.
	sessionLifetime = 24 * time.Hour
	// renewBefore is the least remaining validity of a certificate that is presented.
	renewBefore = sessionLifetime / 2
)

// hostAnchor trusts hosts that have a certificate from our authority. It checks dates.
type hostAnchor struct {
	key     *hostKey
	roots   *x509.CertPool
	revoked *Revocations
	session *sessionCert
}

// sessionCert caches the last certificate that this host has signed for itself.
type sessionCert struct {
	mu      sync.Mutex
	own     tls.Certificate
	from    time.Time
	through time.Time
}

func newHostAnchor(key *hostKey, revoked *Revocations) *hostAnchor {
	roots := x509.NewCertPool()
	roots.AddCert(key.authority)
	if !revoked.signedBy(key.authority) {
		revoked = nil // the list belongs to another network
	}
	return &hostAnchor{key: key, roots: roots, revoked: revoked, session: &sessionCert{}}
}

// revoking returns a copy of a with another list of revocations.
func (a *hostAnchor) revoking(list *Revocations) *hostAnchor {
	b := *a
	b.revoked = list
	return &b
}

func (a *hostAnchor) certificate() (*tls.Certificate, error) {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Round(0) // wall clock, like the peer's check: it may have been set since the last call
	if now.Before(s.from) || now.Add(renewBefore).After(s.through) {
		own, err := a.issue(now)
		if err != nil {
			return nil, err
		}
		s.own, s.from, s.through = own, now.Add(-slack), now.Add(sessionLifetime-slack)
	}
	own := s.own
	return &own, nil
}

func (a *hostAnchor) issue(now time.Time) (tls.Certificate, error) {
	template, err := sessionTemplate(a.key.host)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.NotBefore, template.NotAfter = now.Add(-slack), now.Add(sessionLifetime-slack)
	template.DNSNames = []string{dnsOf(a.key.host)}
	own, err := issueSession(template, a.key.certificate, a.key.private)
	own.Certificate = append(own.Certificate, a.key.certificate.Raw)
	return own, err
}

func (a *hostAnchor) identify(chain []*x509.Certificate) (Peer, error) {
	switch {
	case len(chain) == 1:
		return Peer{}, ErrWrongKey // the peer is in a network with a shared key
	case len(chain) != 2:
		return Peer{}, errBadCertificate
	}
	if err := a.vouched(chain[0], chain[1]); err != nil {
		return Peer{}, err
	}
	if err := checkUsage(chain[0]); err != nil {
		return Peer{}, err
	}
	name, err := bound(chain[0], chain[1])
	if err != nil {
		return Peer{}, err
	}
	return Peer{Host: name, Node: hostNode(a.key.authority.PublicKey.(ed25519.PublicKey), name)}, a.stands(chain)
}

// vouched verifies the chain from a session certificate, through its host's certificate, to
// the authority. It checks signatures, dates, names and the right to sign.
func (a *hostAnchor) vouched(cert, host *x509.Certificate) error {
	now := time.Now()
	hosts := x509.NewCertPool()
	hosts.AddCert(host)
	chains, err := cert.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: hosts, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case unknown:
		return ErrWrongKey
	case isInvalid && invalid.Reason == x509.Expired:
		return notNow(invalid.Cert, now)
	case err != nil:
		return fmt.Errorf("%w%.0w", errBadCertificate, err)
	case len(chains) != 1 || len(chains[0]) != 3:
		return errBadCertificate // the authority has signed the session certificate itself
	}
	return nil
}

func notNow(cert *x509.Certificate, now time.Time) error {
	return &CertificateError{ErrNotNow, fmt.Sprintf(": it is valid from %s to %s, and the clock here says %s",
		cert.NotBefore.Format(time.RFC3339), cert.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
}

// bound returns the host name of a session certificate. It checks that the name is exactly
// that of the host's certificate, and that the session certificate is short-lived. The
// standard verification would let host robot sign for x.robot. The certificate has no node
// id, since the id is derived from the name.
func bound(cert, host *x509.Certificate) (string, error) {
	name, ok := hostOf(host)
	_, isEd25519 := host.PublicKey.(ed25519.PublicKey)
	switch {
	case !ok, !isEd25519,
		cert.Subject.CommonName != name,
		!slices.Equal(cert.DNSNames, []string{dnsOf(name)}),
		cert.NotAfter.Sub(cert.NotBefore) > sessionLifetime:
		return "", errBadCertificate
	}
	return name, nil
}

// stands implements anchor. It ignores the dates of the session certificate, since a session
// may outlast the certificate with which it began. It also ignores the first date of the
// host's certificate. That was in the past when the session began, unless the clock was wrong.
func (a *hostAnchor) stands(chain []*x509.Certificate) error {
	if len(chain) != 2 || chain[1].CheckSignatureFrom(a.key.authority) != nil {
		return ErrWrongKey
	}
	host, now := chain[1], time.Now()
	if a.revoked.Has(serialOf(host)) {
		return &CertificateError{err: ErrRevoked}
	}
	if now.After(host.NotAfter) {
		return notNow(host, now)
	}
	return nil
}
