package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
)

// Errors of a file.
var (
	ErrFormat = errors.New("not an MCAP file")
	ErrCut    = errors.New("the file was cut short")
)

// Record is a message of a file: a frame, or a drop.
type Record struct {
	Topic   *Topic // nil: the topic is not an Ach channel
	Name    string // name of the topic
	Seq     uint32 // low half of the number that Ach gave the frame
	Log     time.Time
	Publish time.Time
	Data    []byte // valid until the next call
	Drop    *Drop  // on DropsTopic
}

// Reader reads a file from its beginning to its end. The file may have been cut short. One
// goroutine at a time.
type Reader struct {
	name      string
	close     func() error // closes the file
	zeros     func() bool  // reports whether the record that was read last reaches into zeros at the file's end
	unpack    *zstd.Decoder
	lexer     *mcap.Lexer
	buf       []byte
	topics    map[uint16]*topic
	types     map[uint16]*mcap.Schema
	keptBytes int // bytes that topics, types and Facts use
	most      int // limit of kept
	atEnd     bool

	// Facts are the file's own metadata, as far as the file was read.
	Facts map[string]string
}

type topic struct {
	name string
	ach  *Topic
}

// maxRecord is the largest record that the reader accepts, in bytes: no channel holds a larger
// frame.
const maxRecord = 1<<30 + 1<<20

// The file ends before a record that claims to be larger than it, and no memory is taken for such a
// one. A file that is being recorded still grows, so a claim up to usual is always believed. zstd
// packs frames of zeros by less than packs.
const (
	usual         = 64 << 20
	maxCompressed = 1 << 16
)

// mostKept limits the memory for a file's topics, types and Facts, in bytes. A recording has a few KiB for each channel.
const mostKept = 64 << 20

var errTooMuch = fmt.Errorf("the descriptions of its channels are too large: more than %d MiB", mostKept>>20)

// keep counts bytes that are kept until the file is closed.
func (r *Reader) keep(n int) error {
	if r.keptBytes += n; r.keptBytes > r.most {
		return errTooMuch
	}
	return nil
}

func believable(size int64) int { return int(min(maxRecord, max(usual, size))) }

// Open opens a file. The error wraps ErrFormat when the file is not an MCAP file.
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
	from := &counted{from: bufio.NewReaderSize(file, 256<<10)}
	r, err := read(path, from, believable(st.Size()), believable(maxCompressed*st.Size()))
	if err != nil {
		file.Close()
		return nil, err
	}
	r.close = file.Close
	r.zeros = func() bool { return from.count > beginOfZeros(file) }
	return r, nil
}

// counted counts the bytes that are read through it.
type counted struct {
	from  io.Reader
	count int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.count += int64(n)
	return n, err
}

// beginOfZeros returns the offset at which the zeros at the end of a file begin, the file's size if there are none, math.MaxInt64 if it
// cannot be read. When a machine loses power, a file may keep its size with zeros in place of its last bytes.
func beginOfZeros(file *os.File) int64 {
	st, err := file.Stat()
	if err != nil {
		return math.MaxInt64
	}
	buf := make([]byte, 64<<10)
	for end := st.Size(); end > 0; {
		part := buf[:min(end, int64(len(buf)))]
		if _, err := file.ReadAt(part, end-int64(len(part))); err != nil {
			return math.MaxInt64
		}
		if rest := len(bytes.TrimRight(part, "\x00")); rest > 0 {
			return end - int64(len(part)-rest)
		}
		end -= int64(len(part))
	}
	return 0
}

// read reads a file of that name, whose records and unpacked chunks are no larger than most and
// unpacked.
func read(name string, from io.Reader, most, unpacked int) (*Reader, error) {
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)) // a chunk is read as a whole, before the next
	if err != nil {
		return nil, err
	}
	lexer, err := mcap.NewLexer(from, &mcap.LexerOptions{
		ValidateChunkCRCs: true, MaxRecordSize: most, MaxDecompressedChunkSize: unpacked,
		Decompressors: map[mcap.CompressionFormat]mcap.ResettableReader{mcap.CompressionZSTD: unpack},
	})
	if err != nil {
		unpack.Close()
		return nil, fmt.Errorf("%s: %w", name, ErrFormat)
	}
	return &Reader{
		name: name, close: func() error { return nil }, zeros: func() bool { return false }, unpack: unpack, lexer: lexer,
		topics: map[uint16]*topic{}, types: map[uint16]*mcap.Schema{}, most: mostKept, Facts: map[string]string{},
	}, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	r.unpack.Close()
	r.lexer.Close()
	return r.close()
}

// Next returns the next message. It returns io.EOF after the last message, and ErrCut when the
// file was cut short or ends with zeros. Any other error means that the file is damaged.
func (r *Reader) Next() (Record, error) {
	for {
		kind, data, err := r.token()
		switch {
		case err != nil && r.atEnd:
			return Record{}, io.EOF
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, mcap.ErrRecordTooLarge):
			return Record{}, ErrCut
		case err != nil && r.zeros():
			return Record{}, ErrCut
		case err != nil && !plain(err.Error()): // it quotes the file
			return Record{}, fmt.Errorf("%s: damaged: %s", r.name, Printable(err.Error()))
		case err != nil:
			return Record{}, fmt.Errorf("%s: damaged: %w", r.name, err)
		}
		r.buf = data[:cap(data)]
		record, ok, err := r.take(kind, data)
		if err != nil && r.zeros() {
			return Record{}, ErrCut
		}
		if err != nil {
			return Record{}, fmt.Errorf("%s: damaged: %w", r.name, err)
		}
		if ok {
			return record, nil
		}
	}
}

// token reads the next token of the file. It turns panics into errors: the lexer trusts the
// length of a chunk's compression name (mcap v1.9.0), and panics when that is
// longer than its buffer.
func (r *Reader) token() (kind mcap.TokenType, data []byte, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("an impossible size: %v", what)
		}
	}()
	return r.lexer.Next(r.buf)
}

// take handles a token; ok is true when the token is a message.
func (r *Reader) take(kind mcap.TokenType, data []byte) (record Record, ok bool, err error) {
	switch kind {
	case mcap.TokenMetadata:
		m, err := mcap.ParseMetadata(data)
		if err == nil && m.Name == metadataName {
			r.Facts, err = m.Metadata, r.keep(len(data))
		}
		return record, false, err
	case mcap.TokenSchema:
		s, err := mcap.ParseSchema(data)
		if err == nil && messageEncodings[s.Encoding] != "" && r.types[s.ID] == nil {
			s.Data = slices.Clone(s.Data)
			r.types[s.ID], err = s, r.keep(len(data))
		}
		return record, false, err
	case mcap.TokenChannel:
		c, err := mcap.ParseChannel(data)
		if err == nil && r.topics[c.ID] == nil {
			t := topicOf(c)
			if t != nil {
				t.Type = typeOf(c.Metadata, r.types[c.SchemaID])
			}
			r.topics[c.ID], err = &topic{c.Topic, t}, r.keep(len(data))
		}
		return record, false, err
	case mcap.TokenFooter:
		r.atEnd = true
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

// topicOf describes the Ach channel of a topic; nil when the topic is not an Ach channel.
func topicOf(c *mcap.Channel) *Topic {
	t := Topic{
		Channel: c.Metadata["ach"], Host: c.Metadata["host"], Mode: c.Metadata["mode"],
		Origin: c.Metadata["origin"], Times: c.Metadata["times"], Mismatch: c.Metadata["misfit"] == "true", Stamps: stampsOf(c.Metadata),
	}
	count, err := strconv.Atoi(c.Metadata["frame_count"])
	size, err2 := strconv.Atoi(c.Metadata["frame_size"])
	if t.Channel == "" || t.Channel != c.Topic || err != nil || err2 != nil {
		return nil
	}
	t.FrameCount, t.FrameSize = count, size
	return &t
}
