package status

import "achbridge/bridge/via"

// Load is the result of a load test: the rate at which a link carried data in one direction, with its mirrors'
// frames and the test's own data.
type Load struct {
	Host      string   `json:"host"` // name of the peer
	Up        bool     `json:"up"`   // true if this host sends, false if it receives
	Transport via.Kind `json:"transport"`
	Seconds   float64  `json:"window_s"` // duration of the measurement
	// Mbit is the rate of all data that arrived, in Mbit/s including UDP and IP headers. LoadMbit is the part of
	// it that the test sent.
	Mbit     float64 `json:"carried_mbit"`
	LoadMbit float64 `json:"load_mbit"`
	Lost     float64 `json:"lost"` // share of the packets
}
