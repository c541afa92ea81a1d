package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
)

// snapshotFolder is the directory in the state directory that has the snapshots of triggers by default.
const snapshotFolder = "snapshots"

// openRecorder opens the flight recorder, if the configuration has one. The node must exist.
func (d *Daemon) openRecorder(h Host, c *config.Config) (err error) {
	if c.Recorder.Keep == 0 {
		return nil
	}
	cfg := recording.MemoryConfig{
		Config: recording.Config{
			Dir: d.dir, Patterns: c.Recorder.Channels, Host: c.Name, Watcher: d.watcher,
			Mirrors:    func(context.Context) ([]status.Mirror, error) { return d.node.StatusNow().Mirrors, nil },
			Type:       d.recordedType,
			OriginType: d.originType,
			Note:       func(format string, args ...any) { d.log.Warn("flight recorder", "note", fmt.Sprintf(format, args...)) },
		},
		Rules: c.Recorder, Folder: config.Absolute(cmp.Or(c.Recorder.Folder, h.StateFile(c.State, snapshotFolder))),
		Facts: map[string]string{"host": c.Name, "version": h.Version}, Report: d.reportSnapshot,
	}
	if cfg.Folder == "" {
		return ui.Usage(errors.New("record: no directory for snapshots"), "name one: dir: DIRECTORY below record:")
	}
	d.recorder, err = recording.NewMemoryRecorder(cfg)
	d.snapshots = cfg.Folder
	return err
}

// recordedType returns the layout of a channel that the configuration or a publisher of this host has. It returns nil if
// there is none.
func (d *Daemon) recordedType(channel, name string) (*recording.Type, error) {
	l, err := d.config().LayoutFor(channel, name)
	if l == nil && err == nil {
		l = config.PublishedLayout(d.dir, name)
	}
	if l == nil || err != nil {
		return nil, err
	}
	return recording.NewType(l, status.TypeFromFile)
}

// originType returns the layout that the origin of a mirror has, nil if the origin has none.
func (d *Daemon) originType(ctx context.Context, mirror string) (*recording.Type, error) {
	found, err := d.node.Layout(ctx, mirror)
	switch {
	case err != nil || found.Why == "" && found.Encoded == nil:
		return nil, nil // the mirror is gone, or its origin has no layout
	case found.Why != "":
		return nil, fmt.Errorf("%s has a layout of %s, but %s", found.Host, found.Channel, found.Why)
	}
	l, err := layout.DecodeLayout(found.Encoded)
	if err != nil {
		return nil, fmt.Errorf("%s has a layout of %s: %w", found.Host, found.Channel, err)
	}
	return recording.NewType(l, status.TypeFromOrigin)
}

// record runs the flight recorder until ctx ends. If it fails, the daemon runs without it.
func (d *Daemon) record(ctx context.Context) {
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() { d.recordEvents(ctx) })
	if err := d.recorder.Run(ctx); err != nil && ctx.Err() == nil {
		d.node.LogEvent(slog.LevelError, "flight recorder ended", status.Event{Kind: status.EventSnapshotFailed, Text: "the flight recorder has ended: " + err.Error()}, "err", err)
	}
}

// recordEvents passes new events of the node to the recorder until ctx ends.
func (d *Daemon) recordEvents(ctx context.Context) {
	after := uint64(0)
	for ctx.Err() == nil {
		list, err := d.node.Events(ctx, after)
		if err != nil {
			return
		}
		for _, e := range list.Events {
			d.recorder.Event(e)
			after = e.Seq
		}
	}
}

// reportSnapshot records the result of a snapshot of triggers as an event.
func (d *Daemon) reportSnapshot(s recording.Snapshot) {
	if s.Err != nil {
		text := s.Reason + ": " + s.Err.Error()
		if s.Path != "" {
			text += "; " + s.Path + " has the frames up to there"
		}
		d.node.LogEvent(slog.LevelError, "snapshot failed", status.Event{Kind: status.EventSnapshotFailed, Text: text}, "file", s.Path, "trigger", s.Reason, "err", s.Err)
		return
	}
	d.node.LogEvent(slog.LevelInfo, "snapshot written", status.Event{Kind: status.EventSnapshot, Text: s.Reason + ": " + s.Path},
		"file", s.Path, "trigger", s.Reason, "frames", s.Frames, "bytes", s.Bytes, "lost", s.Lost)
}

// recorderReport returns the state of the flight recorder, nil if there is none.
func (d *Daemon) recorderReport() *api.Recorder {
	if d.recorder == nil {
		return nil
	}
	s, rules := d.recorder.Status(), d.config().Recorder
	r := &api.Recorder{
		KeepS: rules.Keep.Seconds(), CoversS: s.Covers.Seconds(), MemoryBytes: s.Memory, MemoryLimit: rules.Memory,
		Frames: s.Frames, Missed: s.Missed, Skipped: s.Skipped, Dir: d.snapshots, Writing: s.Running, Snapshots: s.Snapshots,
		Problems: append([]string{}, s.Problems...),
	}
	if s.Last != nil {
		last := snapshotReply(*s.Last)
		r.Last = &last
	}
	return r
}

func snapshotReply(s recording.Snapshot) api.Snapshot {
	r := api.Snapshot{
		File: s.Path, Reason: s.Reason, Bytes: s.Bytes, Frames: s.Frames, Channels: s.Channels, Lost: s.Lost,
		Until: s.Until.UTC(),
	}
	if !s.From.IsZero() {
		from := s.From.UTC()
		r.From = &from
	}
	if s.Err != nil {
		r.Error = s.Err.Error()
	}
	return r
}

// snapshot replies with a snapshot as an MCAP file. The reply ends when the time after the request has passed.
func (c *control) snapshot(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the read deadline would end the request
	before, after, err := c.snapshotTimes(r.URL.Query())
	if err != nil {
		reply(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", api.SnapshotTrailer)
	s, err := c.recorder.Snapshot(r.Context(), w, before, after)
	if err != nil {
		c.log.Warn("snapshot cut short", "err", err)
		panic(http.ErrAbortHandler) // the client must not take the file for a complete one
	}
	text, _ := json.Marshal(snapshotReply(s)) // cannot fail for this type
	w.Header().Set(api.SnapshotTrailer, string(text))
}

// snapshotTimes returns how long before and after the request a snapshot begins and ends.
func (c *control) snapshotTimes(query url.Values) (before, after time.Duration, err error) {
	if c.recorder == nil {
		return 0, 0, errors.New("the daemon has no flight recorder; write keep: 60s below record: into its configuration, and restart it")
	}
	keep := c.config().Recorder.Keep
	before, err = time.ParseDuration(cmp.Or(query.Get("before"), keep.String()))
	if err != nil || before < 0 {
		return 0, 0, badRequest{fmt.Errorf("before %q: want a time, as in 30s", query.Get("before"))}
	}
	if before > keep {
		return 0, 0, badRequest{fmt.Errorf("before %v: the daemon keeps the frames of %v; keep below record: in its configuration sets that", before, keep)}
	}
	after, err = time.ParseDuration(cmp.Or(query.Get("after"), "0s"))
	if err != nil || after < 0 || after > mostAfter {
		return 0, 0, badRequest{fmt.Errorf("after %q: want a time up to %v, as in 10s", query.Get("after"), mostAfter)}
	}
	return before, after, nil
}

// mostAfter limits the time after a request that its snapshot covers.
const mostAfter = time.Hour
