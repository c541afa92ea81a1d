package bridge

import (
	"errors"

	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/wire"
)

// causeOf is what an error comes of, "" without one.
func causeOf(err error) status.Cause {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, trust.ErrRevoked):
		return status.CauseRevoked
	case errors.Is(err, trust.ErrNotNow):
		return status.CauseCertificate
	case errors.Is(err, trust.ErrWrongKey):
		return status.CauseKey
	case errors.Is(err, transport.ErrSilent):
		return status.CausePeerSilent
	case errors.Is(err, localach.ErrHole), errors.Is(err, errGiant):
		return status.CauseBadFrame
	case errors.Is(err, errTooMuch):
		return status.CauseLimit
	}
	return mirror.CauseOf(err)
}

// causeOfRefusal is what a peer's no comes of.
func causeOfRefusal(m wire.Refused) status.Cause {
	switch m.Code {
	case wire.CodeForbidden:
		if m.Re == wire.TypeOffer {
			return status.CauseAcceptRule
		}
		return status.CauseExportRule
	case wire.CodeAbsent:
		return status.CauseNoChannel
	case wire.CodeAccess:
		return status.CauseFileMode
	case wire.CodeCorrupt:
		return status.CauseCorrupt
	case wire.CodeLimit:
		return status.CauseLimit
	case wire.CodeLoop:
		return status.CauseLoop
	case wire.CodeConflict:
		return status.CauseRule
	}
	return status.CauseOther
}
