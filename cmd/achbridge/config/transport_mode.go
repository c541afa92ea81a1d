package config

import "achbridge/bridge/via"

// TransportMode is the protocol that links use.
type TransportMode via.Kind

const (
	TransportAuto = TransportMode(via.Any) // QUIC, or SCTP where QUIC gets no answer
	TransportQUIC = TransportMode(via.QUIC)
	TransportSCTP = TransportMode(via.SCTP)
)

func (m *TransportMode) String() string { return via.Kind(*m).String() }

func (m *TransportMode) Type() string { return "TRANSPORT" }

func (m *TransportMode) Set(text string) error {
	kind, err := via.Parse(text)
	if err == nil {
		*m = TransportMode(kind)
	}
	return err
}
