package achd

import (
	"errors"
	"fmt"
	"io/fs"

	"achbridge/localach"
)

// code is a status number of libach.
type code int

const (
	overflow  code = 1
	badName   code = 2
	tryLater  code = 5
	noEntry   code = 9
	corrupt   code = 13
	badHeader code = 14
	noAccess  code = 15
	noSupport code = 19
)

var codeNames = map[code]string{
	overflow: "ACH_OVERFLOW", badName: "ACH_INVALID_NAME", tryLater: "ACH_EAGAIN", noEntry: "ACH_ENOENT", corrupt: "ACH_CORRUPT",
	badHeader: "ACH_BAD_HEADER", noAccess: "ACH_EACCES", noSupport: "ACH_ENOTSUP",
}

// refusal is an error that is sent to the client. Its text has no colon, equals sign or hash, because achd's client
// would reject the line as malformed.
type refusal struct {
	code code
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) reply() []byte {
	return fmt.Appendf(nil, "status: %d # %s\nmessage: %s\n\n.\n", r.code, codeNames[r.code], r.text)
}

// accepted returns the answer to a granted request. port is our port for datagrams; 0 means none.
func accepted(port int, g localach.Geometry) (text []byte) {
	if port != 0 {
		text = fmt.Appendf(text, "remote-port: %d\n", port)
	}
	return fmt.Appendf(text, "frame-count: %d\nframe-size: %d\nstatus: 0 # ACH_OK\n.\n", g.FrameCount, g.FrameSize)
}

// cannotOpen returns the refusal for an error when a channel is opened.
func cannotOpen(name string, err error) *refusal {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &refusal{noEntry, "Couldn't open channel " + name + " - No such file or directory"}
	case errors.Is(err, localach.ErrName):
		return &refusal{badName, "Couldn't open channel - bad name"}
	case errors.Is(err, fs.ErrPermission):
		return &refusal{noAccess, "Couldn't open channel " + name + " - Permission denied"}
	case errors.Is(err, localach.ErrHalfCreated):
		return &refusal{tryLater, "Couldn't open channel " + name + " - it is being made"}
	}
	return &refusal{corrupt, "Couldn't open channel " + name + " - it is corrupt"}
}
