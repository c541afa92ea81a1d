package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"achbridge/cmd/achbridge/ui"
)

// Recorder is the state of the flight recorder.
type Recorder struct {
	KeepS       float64 `json:"keep_s"`
	CoversS     float64 `json:"covers_s"` // age of the oldest frame in memory; less than keep_s if the memory is full, or after the start
	MemoryBytes int64   `json:"memory_bytes"`
	MemoryLimit int64   `json:"memory_limit"`
	Frames      uint64  `json:"frames"`  // frames that were recorded since the daemon started
	Missed      uint64  `json:"missed"`  // frames that were overwritten before the recorder read them
	Skipped     uint64  `json:"skipped"` // messages that did not fit into memory
	Dir         string  `json:"dir"`     // directory of the snapshots of triggers
	Writing     bool    `json:"writing"` // a snapshot of triggers is being written
	Snapshots   uint64  `json:"snapshots"`
	// Last is the newest snapshot of triggers, or the newest that failed; null if there is none.
	Last *Snapshot `json:"last"`
	// Problems lists the conditions that cannot be checked. It is never null.
	Problems []string `json:"problems"`
}

// Snapshot is the result of writing a snapshot.
type Snapshot struct {
	File     string     `json:"file,omitempty"`
	Reason   string     `json:"reason,omitempty"` // trigger that began it
	Bytes    int64      `json:"bytes"`
	Frames   uint64     `json:"frames"`
	Channels int        `json:"channels"`
	Lost     uint64     `json:"lost"` // messages that left the memory before they were written
	From     *time.Time `json:"from"` // time of its first message; null if it has none
	Until    time.Time  `json:"until"`
	Error    string     `json:"error,omitempty"` // why it ended early; the file has the frames up to there
}

// SnapshotTrailer is the HTTP trailer of GET /v1/snapshot that has the Snapshot as JSON. It is missing if the answer was
// cut short.
const SnapshotTrailer = "Achbridge-Snapshot"

// Snapshot has the daemon write a snapshot, and copies it to out. It blocks until after has passed. Zero before means
// all that the daemon holds. begin is called before the first byte.
func (c *Client) Snapshot(ctx context.Context, before, after time.Duration, begin func() (io.Writer, error)) (s Snapshot, err error) {
	unlimited := c.Within(0) // no time limit
	query := url.Values{"after": {after.String()}}
	if before > 0 {
		query.Set("before", before.String())
	}
	resp, err := unlimited.begin(ctx, http.MethodGet, "/v1/snapshot?"+query.Encode(), nil)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	out, err := begin()
	if err != nil {
		return s, err
	}
	reading := &readErrors{from: resp.Body}
	if _, err := io.Copy(out, reading); err != nil {
		if reading.err != nil {
			err = c.unreachable(reading.err)
		}
		return s, err
	}
	if json.Unmarshal([]byte(resp.Trailer.Get(SnapshotTrailer)), &s) != nil {
		return s, ui.Failure(errors.New("the daemon sent no complete snapshot"), "its log may say why")
	}
	return s, nil
}

// readErrors stores the error of reading, which io.Copy does not distinguish from one of writing.
type readErrors struct {
	from io.Reader
	err  error
}

func (r *readErrors) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
