package status

import "achbridge/bridge/via"

// Load is what a load test has found: what a link carried one way beside its mirrors and for
// them.
type Load struct {
	Host      string   `json:"host"` // the other end
	Up        bool     `json:"up"`   // from here to there; else from there to here
	Transport via.Kind `json:"transport"`
	Seconds   float64  `json:"window_s"` // over which it was measured
	// Mbit is all that arrived, in Mbit/s with the headers of UDP and IP; LoadMbit is the
	// test's own share of it.
	Mbit     float64 `json:"carried_mbit"`
	LoadMbit float64 `json:"load_mbit"`
	Lost     float64 `json:"lost"` // share of the packets
}
