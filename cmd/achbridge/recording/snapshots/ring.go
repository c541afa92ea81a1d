package snapshots

import (
	"encoding/binary"
	"math"
)

// Message is a frame, or a text that the recorder itself writes.
type Message struct {
	Number  uint64 // counts the messages of the ring from 1; Ring.Add sets it
	Topic   uint32 // number that the caller gave the topic
	Seq     uint64 // number of the frame in its channel
	Log     int64
	Publish int64
	Data    []byte
}

// Ring holds the newest messages in blocks of memory. Its caller must serialize all calls.
type Ring struct {
	limit int64
	alloc func(size int) []byte // returns nil if there is no memory
	free  func([]byte)

	blocks []block
	first  uint64 // number of blocks[0]; blocks are numbered in order of their creation
	used   int64  // size of all blocks, bytes
	last   uint64 // number of the newest message
}

// block holds consecutive messages. Its length is the part in use, its capacity the allocated size.
type block struct {
	data   []byte
	last   uint64 // number of its newest message
	newest int64  // greatest log time in it
}

// blockSize is the size of a block, unless a message is larger. Messages expire in whole blocks.
const blockSize = 1 << 20

// MinMemory is the smallest useful limit of a Ring, in bytes.
const MinMemory = 8 * blockSize

// NewRing returns a Ring whose blocks have at most limit bytes. alloc and free provide the blocks. alloc may return nil.
func NewRing(limit int64, alloc func(size int) []byte, free func([]byte)) *Ring {
	return &Ring{limit: limit, alloc: alloc, free: free}
}

const headSize = 4 + 4 + 4*8 // data size, topic, number, seq, log and publish

// Add copies a message into the ring. It removes the oldest messages if the memory is full. It returns false if the
// message itself does not fit. Such a message still gets a number, so that Next counts it as lost.
func (r *Ring) Add(m Message) bool {
	r.last++
	if uint64(len(m.Data)) > math.MaxUint32 || !r.reserve(headSize+len(m.Data)) {
		return false
	}
	b := &r.blocks[len(r.blocks)-1]
	b.data = binary.LittleEndian.AppendUint32(b.data, uint32(len(m.Data)))
	b.data = binary.LittleEndian.AppendUint32(b.data, m.Topic)
	for _, x := range []uint64{r.last, m.Seq, uint64(m.Log), uint64(m.Publish)} {
		b.data = binary.LittleEndian.AppendUint64(b.data, x)
	}
	b.data = append(b.data, m.Data...)
	b.last = r.last
	b.newest = max(b.newest, m.Log)
	return true
}

// message returns the message at an offset of a block.
func (b block) message(offset int) Message {
	head := b.data[offset:]
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(head[8+8*i:]) }
	size := int(binary.LittleEndian.Uint32(head))
	return Message{
		Topic: binary.LittleEndian.Uint32(head[4:]), Number: number(0), Seq: number(1), Log: int64(number(2)), Publish: int64(number(3)),
		Data: head[headSize : headSize+size],
	}
}

// reserve makes sure that the newest block has room for size bytes.
func (r *Ring) reserve(size int) bool {
	if n := len(r.blocks); n > 0 && cap(r.blocks[n-1].data)-len(r.blocks[n-1].data) >= size {
		return true
	}
	want := max(size, blockSize)
	if int64(want) > r.limit {
		return false
	}
	for r.used+int64(want) > r.limit {
		r.removeOldest()
	}
	data := r.alloc(want)
	if cap(data) < want {
		return false
	}
	r.used += int64(cap(data))
	r.blocks = append(r.blocks, block{data: data[:0], newest: math.MinInt64})
	return true
}

func (r *Ring) removeOldest() {
	data := r.blocks[0].data
	r.blocks[0] = block{}
	r.blocks = r.blocks[1:]
	r.first++
	r.used -= int64(cap(data))
	r.free(data[:cap(data)])
}

// Expire removes the blocks whose messages are all older than before. It keeps messages from number on, which a reader
// still needs.
func (r *Ring) Expire(before int64, number uint64) {
	for len(r.blocks) > 0 && r.blocks[0].newest < before && r.blocks[0].last < number {
		r.removeOldest()
	}
}

// Clear removes all messages.
func (r *Ring) Clear() {
	for len(r.blocks) > 0 {
		r.removeOldest()
	}
}

// Used returns the allocated memory in bytes.
func (r *Ring) Used() int64 { return r.used }

// Oldest returns the log time of the oldest message; ok is false if the ring is empty.
func (r *Ring) Oldest() (log int64, ok bool) {
	if len(r.blocks) == 0 {
		return 0, false
	}
	return r.blocks[0].message(0).Log, true
}

// Position is a place between two messages of a Ring.
type Position struct {
	block  uint64
	offset int
	number uint64 // number of the next message
}

// Number returns the number of the first message after p.
func (p Position) Number() uint64 { return p.number }

// Since returns a position that has all messages with a log time of at least from after it, and maybe some older ones.
func (r *Ring) Since(from int64) Position {
	for i, b := range r.blocks {
		if b.newest >= from {
			return Position{block: r.first + uint64(i), number: b.message(0).Number}
		}
	}
	end := Position{block: r.first, number: r.last + 1}
	if n := len(r.blocks); n > 0 {
		end.block, end.offset = r.first+uint64(n-1), len(r.blocks[n-1].data)
	}
	return end
}

// Next returns the message after p, and the position after that message. lost counts the messages between p and that
// message, which the ring has removed or which did not fit. ok is false if there is no message after p. The message's
// data is valid until the next call of Add, Expire or Clear.
func (r *Ring) Next(p Position) (m Message, next Position, lost uint64, ok bool) {
	at := p
	if at.block < r.first {
		at.block, at.offset = r.first, 0
	}
	i := int(at.block - r.first)
	if i < len(r.blocks) && at.offset == len(r.blocks[i].data) {
		i++
		at.block, at.offset = at.block+1, 0
	}
	if i >= len(r.blocks) {
		return m, p, 0, false
	}
	m = r.blocks[i].message(at.offset)
	at.offset += headSize + len(m.Data)
	at.number = m.Number + 1
	return m, at, m.Number - p.number, true
}
