package recording

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
)

// metadataName is the name of the file's own metadata record.
const metadataName = "achbridge"

// Topic describes a recorded channel.
type Topic struct {
	Channel    string
	Host       string // host that recorded the channel
	FrameCount int
	FrameSize  int
	Mode       string // permissions of its file, in octal
	Origin     string // HOST/CHANNEL of a mirror; empty if there is none or it is unknown
	Times      string // "origin" where publish times are known
	Type       *Type  // type of the frames; nil if it is unknown or the frames do not fit it
	Mismatch   bool   // the frames do not fit the type that the channel has
	Stamps     Stamps // time stamps in the frames

	isValues bool // set for the topics of a ValuesFile
}

func (t Topic) metadata() map[string]string {
	if t.isValues {
		m := map[string]string{"host": t.Host}
		if t.Origin != "" {
			m["origin"] = t.Origin
		}
		return m
	}
	m := map[string]string{
		"ach": t.Channel, "host": t.Host,
		"frame_count": fmt.Sprint(t.FrameCount), "frame_size": fmt.Sprint(t.FrameSize), "mode": t.Mode,
	}
	if t.Origin != "" {
		m["origin"] = t.Origin
	}
	if t.Times != "" {
		m["times"] = t.Times
	}
	if t.Mismatch {
		m["misfit"] = "true"
	}
	t.Type.describe(m)
	t.Stamps.describe(m)
	return m
}

const (
	chunkSize  = 1 << 20     // a chunk is closed at this size, before compression,
	chunkEvery = time.Second // or this long after it was begun
)

// writer writes one file. It makes the chunks itself: mcap.Writer closes a chunk only when a
// message comes, so a crash could lose messages of any age.
type writer struct {
	file       *os.File // nil if the file is written elsewhere, through buffer
	buffer     *bufio.Writer
	out        *mcap.Writer // writes the header, whole chunks and the end
	records    *mcap.Writer // writes the records of the open chunk into chunk
	chunk      bytes.Buffer
	zstd       *zstd.Encoder
	compressed []byte

	topics       map[Topic]uint16
	texts        map[*ownTopic]uint16
	schemas      map[any]uint16 // key: *Type or *ownTopic
	summary      int64          // bytes that the types take at the file's end
	order        []uint16
	indexes      map[uint16]*mcap.MessageIndex
	counts       map[uint16]uint64
	first        uint64 // log time of the oldest message in the chunk
	last         uint64
	chunkBeganAt time.Time // start time of the chunk; zero if the chunk is empty
	whole        int64     // the file's size after its last whole chunk
}

// newWriter creates the file, which must not exist. facts are the file's metadata.
func newWriter(path string, facts map[string]string) (*writer, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	w, err := newWriterTo(file, facts)
	if err != nil {
		file.Close()
		os.Remove(path)
		return nil, err
	}
	w.file = file
	return w, nil
}

// newWriterTo returns a writer of a file that out stores.
func newWriterTo(out io.Writer, facts map[string]string) (*writer, error) {
	w := &writer{
		buffer: bufio.NewWriterSize(out, 64<<10), topics: map[Topic]uint16{}, texts: map[*ownTopic]uint16{}, schemas: map[any]uint16{},
		indexes: map[uint16]*mcap.MessageIndex{}, counts: map[uint16]uint64{},
	}
	return w, w.begin(facts)
}

func (w *writer) begin(facts map[string]string) (err error) {
	if w.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err != nil {
		return err
	}
	if w.out, err = mcap.NewWriter(w.buffer, &mcap.WriterOptions{IncludeCRC: true}); err != nil {
		return err
	}
	if w.records, err = mcap.NewWriter(&w.chunk, &mcap.WriterOptions{SkipMagic: true}); err != nil {
		return err
	}
	if err := w.out.WriteHeader(&mcap.Header{Library: "achbridge"}); err != nil {
		return err
	}
	if err := w.out.WriteMetadata(&mcap.Metadata{Name: metadataName, Metadata: facts}); err != nil {
		return err
	}
	return w.settle()
}

// frame writes a frame of a topic.
func (w *writer) frame(t Topic, m mcap.Message) error {
	id, ok := w.topics[t]
	if !ok {
		var err error
		c := &mcap.Channel{Topic: t.Channel, Metadata: t.metadata()}
		if c.SchemaID, err = w.schemaOf(t.Type); err != nil {
			return err
		}
		if c.SchemaID != 0 {
			c.MessageEncoding = messageEncodings[t.Type.Schema.Encoding]
		}
		if id, err = w.add(c); err != nil {
			return err
		}
		w.topics[t] = id
		w.summary += t.Type.size()
	}
	return w.message(id, m)
}

// has reports whether the file has the topic already.
func (w *writer) has(t Topic) bool {
	_, ok := w.topics[t]
	return ok
}

// schemaOf returns the id of a type's schema, 0 if it has none.
func (w *writer) schemaOf(t *Type) (uint16, error) {
	if t == nil || t.Schema.Encoding == "" {
		return 0, nil
	}
	return w.schema(t, &mcap.Schema{Name: t.Name, Encoding: t.Schema.Encoding, Data: []byte(t.Schema.Text)})
}

// schema returns the id of a schema, which it writes on first use. of is the *Type or the *ownTopic that has it.
func (w *writer) schema(of any, s *mcap.Schema) (uint16, error) {
	if id, ok := w.schemas[of]; ok {
		return id, nil
	}
	s.ID = uint16(len(w.schemas) + 1)
	if err := w.records.WriteSchema(s); err != nil {
		return 0, err
	}
	w.out.AddSchema(s)
	w.schemas[of] = s.ID
	return s.ID, nil
}

// text writes a text of a topic of our own.
func (w *writer) text(t *ownTopic, m mcap.Message) error {
	id, ok := w.texts[t]
	if !ok {
		schema, err := w.schema(t, &mcap.Schema{Name: t.schemaName, Encoding: "jsonschema", Data: []byte(t.schema)})
		if err != nil {
			return err
		}
		if id, err = w.add(&mcap.Channel{SchemaID: schema, Topic: t.name, MessageEncoding: "json"}); err != nil {
			return err
		}
		w.texts[t] = id
	}
	return w.message(id, m)
}

func (w *writer) add(c *mcap.Channel) (id uint16, err error) {
	if len(w.order) == math.MaxUint16 { // ids have no more
		return 0, fmt.Errorf("more than %d channels in one file", math.MaxUint16)
	}
	c.ID = uint16(len(w.order) + 1)
	if err := w.records.WriteChannel(c); err != nil {
		return 0, err
	}
	w.out.AddChannel(c)
	w.order = append(w.order, c.ID)
	w.indexes[c.ID] = &mcap.MessageIndex{ChannelID: c.ID}
	return c.ID, nil
}

func (w *writer) message(id uint16, m mcap.Message) error {
	m.ChannelID = id
	w.indexes[id].Add(m.LogTime, uint64(w.chunk.Len()))
	if err := w.records.WriteMessage(&m); err != nil {
		return err
	}
	w.counts[id]++
	if w.chunkBeganAt.IsZero() {
		w.chunkBeganAt, w.first, w.last = time.Now(), m.LogTime, m.LogTime
	}
	w.first, w.last = min(w.first, m.LogTime), max(w.last, m.LogTime)
	if w.chunk.Len() >= chunkSize {
		return w.flush()
	}
	return nil
}

// flush ends the chunk and writes it to the file. When that fails, the file ends with the
// previous chunk.
func (w *writer) flush() error {
	if w.chunk.Len() == 0 {
		return nil
	}
	if w.chunkBeganAt.IsZero() {
		w.first, w.last = 0, 0 // the chunk has topics but no message
	}
	w.compressed = w.zstd.EncodeAll(w.chunk.Bytes(), w.compressed[:0])
	c := &mcap.Chunk{
		MessageStartTime: w.first, MessageEndTime: w.last, UncompressedSize: uint64(w.chunk.Len()),
		UncompressedCRC: crc32.ChecksumIEEE(w.chunk.Bytes()), Compression: string(mcap.CompressionZSTD), Records: w.compressed,
	}
	var indexes []*mcap.MessageIndex
	stats := w.out.Statistics
	for _, id := range w.order {
		if !w.indexes[id].IsEmpty() {
			indexes = append(indexes, w.indexes[id])
		}
		if n := w.counts[id]; n > 0 {
			stats.MessageCount += n
			stats.ChannelMessageCounts[id] += n
		}
	}
	if err := w.out.WriteChunkWithIndexes(c, indexes); err != nil {
		return w.cut(err)
	}
	if w.chunk.Cap() > 4*chunkSize {
		w.chunk = bytes.Buffer{} // a large frame has made the buffer too large to keep
	}
	w.chunk.Reset()
	w.chunkBeganAt = time.Time{}
	for _, index := range indexes {
		index.Reset()
	}
	clear(w.counts)
	return w.settle()
}

// settle writes what mcap.Writer has buffered to the file.
func (w *writer) settle() error {
	if err := w.buffer.Flush(); err != nil {
		return w.cut(err)
	}
	w.whole = int64(w.out.Offset())
	return nil
}

// cut truncates the file after its last whole chunk, since writing failed with err.
func (w *writer) cut(err error) error {
	if w.file != nil {
		_ = w.file.Truncate(w.whole)
	}
	return err
}

// due reports whether the chunk was begun at least wait ago.
func (w *writer) due(now time.Time, wait time.Duration) bool {
	return !w.chunkBeganAt.IsZero() && now.Sub(w.chunkBeganAt) >= wait
}

// size returns an upper bound of the file's size in bytes if it were ended now.
func (w *writer) size() int64 {
	waiting := uint64(0)
	for _, n := range w.counts {
		waiting += n
	}
	perChunk := int64(100 + 10*len(w.order))
	end := int64(len(w.out.ChunkIndexes)+1)*perChunk + int64(len(w.order))*400 + w.summary + 1024
	return w.whole + int64(w.chunk.Len()) + int64(waiting)*16 + end
}

// close ends the file, and returns its size.
func (w *writer) close() (bytes int64, err error) {
	defer w.abandon()
	start := w.out.Statistics.MessageStartTime
	empty := w.chunkBeganAt.IsZero()
	if err := w.flush(); err != nil {
		return w.whole, err
	}
	if empty {
		w.out.Statistics.MessageStartTime = start // a chunk without messages has no time
	}
	if err := w.out.Close(); err != nil {
		return w.whole, w.cut(err)
	}
	err = w.settle()
	return w.whole, err
}

// abandon closes the file without its end: its whole chunks stay readable.
func (w *writer) abandon() {
	w.zstd.Close()
	if w.file != nil {
		w.file.Close()
	}
}
