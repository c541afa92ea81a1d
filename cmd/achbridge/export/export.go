// Package export writes the values in a recording as CSV, one file per channel, or as protobuf messages in one MCAP file.
//
//	made, err := export.Config{File: "run.mcap", Dir: "run", Layout: find}.Run(ctx)
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/values"
	"achbridge/localach"
)

// Config has the options of an export.
type Config struct {
	File     string
	Form     Form
	Dir      string   // is made if it is not there
	Patterns []string // valid patterns of channels, as in path.Match; empty means all
	Fields   []string // paths such as joint[2].pos; empty means all
	Force    bool     // replace files that are there
	// Layout is the layout of a topic's frames, nil when it is not known.
	Layout func(recording.Topic) (*layout.Layout, error)
	Note   func(format string, args ...any)
}

// Form is a format of exported values.
type Form int

// Formats of exported values.
const (
	CSV Form = iota
	MCAP
)

// Made is a file that was written.
type Made struct {
	Path    string `json:"file"`
	Channel string `json:"channel"` // empty for MCAP
	Frames  uint64 `json:"frames"`
}

// Errors of an export.
var (
	ErrNothing  = errors.New("the file has no such channel")
	ErrNoLayout = errors.New("no layout says what the frames hold")
	ErrExists   = errors.New("exists already")
)

// exporter writes the files of one recording.
type exporter struct {
	Config
	tables  map[string]*table // the newest of each channel
	all     []*table
	unknown map[string]uint64           // frames of channels without a layout
	of      map[*recording.Topic]*table // nil: its layout is not known
}

// table is the file of one channel.
type table struct {
	Made
	file    *os.File
	out     *bufio.Writer
	printer *values.Printer
	number  int  // number of this table among those of the channel
	there   bool // at its path
}

// Run writes the files, and returns them in the order of their names. From a truncated recording, Run
// writes the complete part and adds a note. If Run fails, it leaves no files.
func (c Config) Run(ctx context.Context) (made []Made, err error) {
	r, err := recording.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	e := &exporter{Config: c, tables: map[string]*table{}, unknown: map[string]uint64{}, of: map[*recording.Topic]*table{}}
	if c.Form == MCAP {
		return e.mcap(ctx, r)
	}
	err = errors.Join(e.read(ctx, r, e.frame), e.close())
	if err == nil {
		err = e.left()
	}
	for _, t := range e.all {
		if err == nil {
			err = e.publish(t.file.Name(), t.Path)
			t.there = err == nil
		}
		made = append(made, t.Made)
	}
	if err != nil {
		for _, t := range e.all {
			os.Remove(t.file.Name())
			if t.there && !e.Force {
				os.Remove(t.Path)
			}
		}
		return nil, err
	}
	slices.SortFunc(made, func(a, b Made) int { return strings.Compare(a.Path, b.Path) })
	return made, nil
}

// publish renames a complete file to its final name. Without Force, it does not replace a file that another program has just created.
func (e *exporter) publish(part, path string) error {
	if err := e.mayWrite(path); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// mayWrite returns ErrExists if a file exists and may not be replaced.
func (e *exporter) mayWrite(path string) error {
	if _, err := os.Lstat(path); err == nil && !e.Force {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	return nil
}

// read calls frame for each frame of a wanted channel.
func (e *exporter) read(ctx context.Context, r *recording.Reader, frame func(recording.Record) error) error {
	for ctx.Err() == nil {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, recording.ErrCut):
			e.Note("%s was cut short; this is what is whole", e.File)
			return nil
		case err != nil:
			return err
		}
		if t := record.Topic; t == nil || localach.CheckName(t.Channel) != nil || !e.wanted(t.Channel) {
			continue
		}
		if err := frame(record); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *exporter) wanted(name string) bool {
	return len(e.Patterns) == 0 || rule.Matches(e.Patterns, name)
}

func (e *exporter) frame(r recording.Record) error {
	name := r.Topic.Channel
	t, err := e.tableOf(r.Topic)
	if err != nil {
		return err
	}
	if t == nil {
		e.unknown[name]++
		return nil
	}
	line, err := t.printer.Frame(r.Publish, r.Data)
	if err != nil {
		return fmt.Errorf("channel %s: %w", name, err)
	}
	if line != nil {
		t.Frames++
	}
	_, err = t.out.Write(line)
	return err
}

// tableOf returns the table for the frames of a topic, or nil if their layout is unknown. The topic of
// frames that do not match the layout of their channel has no table.
func (e *exporter) tableOf(topic *recording.Topic) (*table, error) {
	t, isCached := e.of[topic]
	switch newest := e.tables[topic.Channel]; {
	case t != nil:
		return t, nil
	case topic.Mismatch && topic.Type == nil && newest != nil:
		return newest, nil
	case isCached:
		return nil, nil
	}
	e.of[topic] = nil
	l, err := e.Layout(*topic)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", topic.Channel, err)
	}
	if l == nil {
		return nil, nil
	}
	same := slices.IndexFunc(e.all, func(t *table) bool { return t.Channel == topic.Channel && l.Same(t.printer.Layout) })
	if same >= 0 {
		e.of[topic] = e.all[same]
	} else if e.of[topic], err = e.begin(topic.Channel, l); err != nil {
		return nil, err
	}
	return e.of[topic], nil
}

// begin makes the file of a channel, or another one for frames with a later layout.
func (e *exporter) begin(name string, l *layout.Layout) (*table, error) {
	if err := os.MkdirAll(e.Dir, 0o777); err != nil {
		return nil, err
	}
	number, file := 1, filepath.Join(e.Dir, name+".csv")
	before := e.tables[name]
	if before != nil {
		number = before.number
	}
	isFile := func(t *table) bool { return t.Path == file }
	for before != nil && number == before.number || slices.ContainsFunc(e.all, isFile) { // another channel's name may end so
		number++
		file = filepath.Join(e.Dir, fmt.Sprintf("%s-%d.csv", name, number))
	}
	if before != nil {
		e.Note("%s: later frames have another type, %s: they are in %s", name, l.Name, file)
	}
	if err := e.mayWrite(file); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: name another directory", file)
	}
	out, err := os.OpenFile(file+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666) // what was exported before stays until all is well
	if err != nil {
		return nil, err
	}
	note := func(format string, args ...any) { e.Note(name+": "+format, args...) }
	t := &table{Made{file, name, 0}, out, bufio.NewWriter(out), &values.Printer{Layout: l, Fields: e.Fields, Form: values.CSV, Note: note}, number, false}
	e.tables[name] = t
	e.all = append(e.all, t)
	return t, nil
}

func (e *exporter) close() (err error) {
	for _, t := range e.all {
		err = errors.Join(err, t.out.Flush(), t.file.Close())
	}
	return err
}

// left returns an error that names the channels without a file.
func (e *exporter) left() error {
	for name, n := range e.unknown {
		if e.tables[name] == nil && len(e.tables) > 0 {
			e.Note("%s is left out: %v", name, ErrNoLayout)
		} else if e.tables[name] != nil {
			e.Note("%s: %d frames are left out: %v", name, n, ErrNoLayout)
		}
	}
	switch {
	case len(e.tables) > 0:
		return nil
	case len(e.unknown) > 0:
		return ErrNoLayout
	}
	return ErrNothing
}
