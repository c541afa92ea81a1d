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

// refusal is an error that the client is told. The text has no colon, equals sign or hash,
// since achd's client would take the line for malformed.
type refusal struct {
	code code
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) reply() []byte {
	return fmt.Appendf(nil, "status: %d # %s\nmessage: %s\n\n.\n", r.code, codeNames[r.code], r.text)
}

// accepted is the answer to a request that is granted. port is ours for datagrams; 0: none.
func accepted(port int, g localach.Geometry) (text []byte) {
	if port != 0 {
		text = fmt.Appendf(text, "remote-port: %d\n", port)
	}
	return fmt.Appendf(text, "frame-count: %d\nframe-size: %d\nstatus: 0 # ACH_OK\n.\n", g.FrameCount, g.FrameSize)
}

// cannotOpen is the refusal for an error of opening a channel.
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
