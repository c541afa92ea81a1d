package hub

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"achbridge/cmd/achbridge/service"
)

// Report is the state of a hub. Lists are never null.
type Report struct {
	Address   string       `json:"address"` // address that hosts dial
	Listen    string       `json:"listen,omitempty"`
	HTTP      string       `json:"http,omitempty"`
	Version   string       `json:"version,omitempty"`
	Running   bool         `json:"running"`
	UptimeMs  int64        `json:"uptime_ms"`
	Streams   int          `json:"streams"`
	Readers   int          `json:"readers"`      // consumers of all streams
	Memory    int64        `json:"memory_bytes"` // memory that frames use
	MaxMemory int64        `json:"max_memory_bytes"`
	Dropped   int64        `json:"dropped_frames"` // frames dropped for lack of memory
	Hosts     []HostReport `json:"hosts"`
}

// HostReport is the state of a host at the hub. Counts start at 0 when the hub starts.
type HostReport struct {
	Host        string `json:"host"`
	Connected   bool   `json:"connected"`
	ForMs       int64  `json:"connected_ms"`
	From        string `json:"from"`
	Connections int    `json:"connections"`
	Waiting     int    `json:"waiting_bytes"` // bytes that wait at the hub for the host
	Sent        int64  `json:"sent_bytes"`    // bytes that the host sent
	SentCount   int64  `json:"sent_messages"`
	Received    int64  `json:"received_bytes"`
	Messages    int64  `json:"received_messages"`
}

func (s *Server) report() Report {
	r := Report{Address: s.id.Address, Listen: s.Addr(), Version: s.cfg.Version, Running: true, UptimeMs: time.Since(s.began).Milliseconds(),
		MaxMemory: s.cfg.Memory, Dropped: s.keeper.dropped.Load(), Hosts: []HostReport{}}
	if s.http != nil {
		r.HTTP = s.http.Addr().String()
	}
	if z, err := s.nats.Jsz(nil); err == nil {
		r.Streams, r.Readers, r.Memory = z.Streams, z.Consumers, int64(z.Memory)
	}
	for _, name := range s.members.sorted() {
		r.Hosts = append(r.Hosts, s.members.report(name))
	}
	return r
}

// ReportAtRest returns the report of a hub that does not run on this computer, from its files.
func (d Directory) ReportAtRest() (Report, error) {
	r := Report{Hosts: []HostReport{}}
	id, err := d.Identity()
	if err != nil {
		return r, err
	}
	r.Address = id.Address
	hosts, err := d.Hosts()
	if err != nil {
		return r, err
	}
	for _, h := range hosts {
		r.Hosts = append(r.Hosts, HostReport{Host: h.Name})
	}
	slices.SortFunc(r.Hosts, func(a, b HostReport) int { return strings.Compare(a.Host, b.Host) })
	return r, nil
}

// serveControl serves GET /v1/hub, the report, on the control socket.
func (s *Server) serveControl(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/hub", func(w http.ResponseWriter, _ *http.Request) {
		service.ReplyJSON(w, http.StatusOK, s.report())
	})
	return service.ServeControl(ctx, s.socket, mux, s.log)
}
