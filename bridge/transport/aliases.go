package transport

import "achbridge/bridge/transport/session"

// The names of package session by which the packages above know sessions.
type (
	Session       = session.Session
	SendStream    = session.SendStream
	ReceiveStream = session.ReceiveStream
	CloseError    = session.CloseError
)

// KeepAlive is session.KeepAlive.
const KeepAlive = session.KeepAlive

// The errors of package session by which the packages above tell causes apart.
var (
	ErrSilent         = session.ErrSilent
	ErrReset          = session.ErrReset
	ErrOurCertificate = session.ErrOurCertificate
)
