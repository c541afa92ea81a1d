package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/foxglove/mcap/go/mcap"
)

// Errors of a file.
var (
	ErrFormat = errors.New("not an MCAP file")
	ErrCut    = errors.New("the file was cut short")
)

// Record is a message of a file: a frame, or a drop.
type Record struct {
	Topic   *Topic // nil: of no Ach channel
	Name    string // of the topic, whatever it is
	Seq     uint32 // low half of the number that Ach gave the frame
	Log     time.Time
	Publish time.Time
	Data    []byte // until the next call
	Drop    *Drop  // on DropsTopic
}

// Reader reads a file from its beginning to its end, whether it was ended properly or
// not. One goroutine at a time.
type Reader struct {
	file   *os.File
	lexer  *mcap.Lexer
	buf    []byte
	topics map[uint16]*topic
	ended  bool

	// Facts are the file's own metadata, as far as they were read.
	Facts map[string]string
}

type topic struct {
	name string
	ach  *Topic
}

// The most that is believed of a file's sizes: no channel holds a larger frame.
const maxRecord = 1<<30 + 1<<20

// Open opens a file. An error wraps ErrFormat when it is none of MCAP.
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s: it is a directory", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	lexer, err := mcap.NewLexer(bufio.NewReaderSize(file, 256<<10), &mcap.LexerOptions{
		ValidateChunkCRCs: true, MaxRecordSize: maxRecord, MaxDecompressedChunkSize: maxRecord,
	})
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrFormat)
	}
	return &Reader{file: file, lexer: lexer, topics: map[uint16]*topic{}, Facts: map[string]string{}}, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	r.lexer.Close()
	return r.file.Close()
}

// Next returns the next message: io.EOF after the last, ErrCut when the file ends before
// its end. Any other error says that it is damaged.
func (r *Reader) Next() (Record, error) {
	for {
		kind, data, err := r.token()
		switch {
		case err != nil && r.ended:
			return Record{}, io.EOF
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return Record{}, ErrCut
		case err != nil:
			return Record{}, fmt.Errorf("%s: damaged: %w", r.file.Name(), err)
		}
		r.buf = data[:cap(data)]
		record, ok, err := r.take(kind, data)
		if err != nil {
			return Record{}, fmt.Errorf("%s: damaged: %w", r.file.Name(), err)
		}
		if ok {
			return record, nil
		}
	}
}

// token is the next of the file. The lexer believes the length of a chunk's compression
// (mcap v1.9.0, loadChunk) and panics when that is longer than its buffer.
func (r *Reader) token() (kind mcap.TokenType, data []byte, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("a size that cannot be true: %v", what)
		}
	}()
	return r.lexer.Next(r.buf)
}

// take reports whether the token is a message.
func (r *Reader) take(kind mcap.TokenType, data []byte) (record Record, ok bool, err error) {
	switch kind {
	case mcap.TokenMetadata:
		m, err := mcap.ParseMetadata(data)
		if err == nil && m.Name == metadataName {
			r.Facts = m.Metadata
		}
		return record, false, err
	case mcap.TokenChannel:
		c, err := mcap.ParseChannel(data)
		if err == nil && r.topics[c.ID] == nil {
			r.topics[c.ID] = &topic{c.Topic, topicOf(c)}
		}
		return record, false, err
	case mcap.TokenFooter:
		r.ended = true
	case mcap.TokenMessage:
		record, err = r.message(data)
		return record, err == nil, err
	}
	return record, false, nil
}

func (r *Reader) message(data []byte) (Record, error) {
	m, err := mcap.ParseMessage(data)
	if err != nil {
		return Record{}, err
	}
	t := r.topics[m.ChannelID]
	if t == nil {
		return Record{}, fmt.Errorf("a message of channel %d, which was not announced", m.ChannelID)
	}
	record := Record{
		Topic: t.ach, Name: t.name, Seq: m.Sequence, Data: m.Data,
		Log: time.Unix(0, int64(m.LogTime)), Publish: time.Unix(0, int64(m.PublishTime)),
	}
	if t.name == DropsTopic {
		record.Drop = new(Drop)
		err = json.NewDecoder(bytes.NewReader(m.Data)).Decode(record.Drop)
	}
	return record, err
}

// topicOf is what a file tells of an Ach channel, nil for a topic of something else.
func topicOf(c *mcap.Channel) *Topic {
	t := Topic{
		Channel: c.Metadata["ach"], Host: c.Metadata["host"], Mode: c.Metadata["mode"],
		Origin: c.Metadata["origin"], Times: c.Metadata["times"],
	}
	count, err := strconv.Atoi(c.Metadata["frame_count"])
	size, err2 := strconv.Atoi(c.Metadata["frame_size"])
	if t.Channel == "" || t.Channel != c.Topic || err != nil || err2 != nil {
		return nil
	}
	t.FrameCount, t.FrameSize = count, size
	return &t
}
