// Package via names the transport protocols of sessions, and the marks of their packets:
//
//	kind, err := via.Parse("quic") // as flags and files have it
//	fmt.Println(kind == via.QUIC)
//
// It is separate from package transport, which implements the protocols, so that rules and status can name a protocol
// without importing it.
package via

import "fmt"

// Kind is the transport protocol of a session. The zero value, Any, lets Dial choose. JSON decoding accepts any text,
// since a newer daemon may know more protocols. Code that acts on a Kind must check it.
type Kind string

const (
	Any  Kind = ""
	QUIC Kind = "quic"
	SCTP Kind = "sctp"

	// Hub is TLS over a byte stream through a hub, for hosts without a direct path. Users cannot choose it: Parse
	// rejects it.
	Hub Kind = "hub"

	Pipe Kind = "pipe" // sessions without a network, see session.Pipe
)

// String returns the name of a protocol, or auto for Any.
func (k Kind) String() string {
	if k == Any {
		return "auto"
	}
	return string(k)
}

// Parse parses auto, quic or sctp, as users write them in flags and files.
func Parse(text string) (Kind, error) {
	switch text {
	case Any.String():
		return Any, nil
	case string(QUIC), string(SCTP):
		return Kind(text), nil
	}
	return Any, fmt.Errorf("%q: want auto, quic or sctp", text)
}
