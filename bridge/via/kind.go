// Package via names the protocols that sessions run over:
//
//	kind, err := via.Parse("quic") // as flags and files have it
//	fmt.Println(kind == via.QUIC)
//
// It is apart from package transport, which speaks them, so that rules and status can
// name a protocol without it.
package via

import "fmt"

// Kind is the protocol that a session runs over. The zero value, Any, names none: the
// choice is Dial's. Its JSON is any text, since a newer daemon may know more protocols;
// who acts on it checks it.
type Kind string

const (
	Any  Kind = ""
	QUIC Kind = "quic"
	SCTP Kind = "sctp"

	// Hub is TLS over a byte stream through a hub, for hosts to which there is no path.
	// Nobody chooses it: Parse refuses it.
	Hub Kind = "hub"

	Pipe Kind = "pipe" // of no network, see Pipe
)

// String returns the name of a protocol, and auto for Any.
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
