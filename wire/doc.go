// Package wire is the wire format of achbridge, version 1: bytes in, values out.
//
//	b = wire.AppendHeader(b[:0], wire.Header{Number: 7, Sent: now}) // a datagram
//	b = wire.AppendFrame(b, now, frame)
//	d, err := wire.Parse(b)
//	for e, ok := d.Next(); ok; e, ok = d.Next() {
//		switch e.Kind { … }
//	}
//
//	b, err = wire.AppendMessage(b[:0], wire.Subscribe{ID: 3, Channel: "imu"})
//	m, err := wire.ParseMessage(body)                               // a control message
//
// The package does no I/O, reads no clock and starts no goroutine. All functions are safe for
// concurrent use. A Datagram is for one goroutine at a time.
//
// A link (TLS ALPN "achbridge/1") between two nodes has a control stream with messages, and
// datagrams with frames and feedback. Each subscription of mode every also has a reliable stream.
// Parse, ParseMessage and RecordReader treat all input as hostile: every count, length and name has
// a limit, and an error names the field that broke it. They check only these limits. The caller
// checks whether a subscription, channel or part exists, and whether compressed data has the size
// that it claims.
//
// # Datagrams
//
// A datagram has at most [MaxDatagram] bytes: a header, then entries until the end. A datagram
// without entries only requests feedback. "uvarint" is the unsigned varint of encoding/binary in its
// shortest form; longer forms are refused. u32 and u64 are big-endian. Times are nanoseconds of the
// sender's CLOCK_MONOTONIC since its node started, at most 2^63-1.
//
//	header    packet number  uvarint  1 … 2^63-1, counted per link and direction
//	          send time      uvarint
//
//	frame     type           u8       bits 0 … 3: 1
//	                                  bit 4: owed, the newest frame by last-value delivery
//	                                  bits 5 … 7: codec, 0 none, 1 S2 block, 2 Zstandard frame
//	          sub            uvarint  1 … 2^32-1, the subscription's ID
//	          epoch          u32      low 32 bits of the channel's epoch
//	          seq            uvarint  1 … 2^64-1, the origin's sequence number
//	          captured       uvarint  0 if unknown, else 1 + send time - capture time;
//	                                  at most the send time
//	          raw size       uvarint  only with a codec: 1 … MaxFrame, bytes of the
//	                                  frame before compression
//	          size           uvarint  1 … bytes left in the datagram
//	          data           size bytes
//
//	part      type           u8       bits 0 … 3: 2; the other bits as in frame
//	          sub … raw size          as in frame
//	          size           uvarint  1 … MaxFrame, of the whole frame after compression
//	          index          uvarint  0 … count-1
//	          count          uvarint  1 … MaxParts, none of the parts empty
//	          data                    ceil(size/count) bytes; the last part has the rest
//
//	feedback  type           u8       3
//	          newest         uvarint  1 … 2^63-1, highest packet number received
//	          bitmap         u64      bit i: packet newest-1-i was received too;
//	                                  no bit is set for a packet below 1
//	          arrivals       u8       0 … MaxArrivals, each:
//	            back         uvarint  1 … 64, increasing; packet newest-back, in the bitmap
//	            before       uvarint  arrival of newest - arrival of that packet
//	          arrived        uvarint  arrival of newest, at least every before
//	          gaps           u8       0 … MaxGaps, each a range of missing parts:
//	            sub          uvarint  1 … 2^32-1
//	            seq          uvarint  1 … 2^64-1
//	            first        uvarint  index of the first missing part
//	            count        uvarint  1 … MaxParts-first
//
//	mark      type           u8       4
//	          sub            uvarint  1 … 2^32-1
//	          bytes          uvarint  1 … 2^63-1, sent with this packet on the
//	                                  subscription's reliable stream
//
// Version 1 has no other entries. An unknown type invalidates the whole datagram, since the length
// of the entry is unknown. A packet that newest overtook is acknowledged only in the bitmap, without
// its arrival time.
//
// # Reliable streams
//
// A stream has the frames of one subscription and epoch: a header, then records until the end.
// Varints are in their shortest form. The receiver limits the size of a record to the channel's
// frame size. A record outside its limits, or whose sequence number does not increase, ends the
// stream.
//
//	header    sub            uvarint  1 … 2^32-1, the subscription's ID
//	          epoch          u64      the channel's epoch
//
//	record    seq            uvarint  1 … 2^64-1, greater than the one before
//	          captured       uvarint  0 if unknown, else the capture time; at most 2^63-1
//	          missed         uvarint  frames that the ring lost between the previous record
//	                                  and this one; at most the sequence numbers skipped
//	          codec          u8       0 none, 1 S2 block, 2 Zstandard frame
//	          raw size       uvarint  only with a codec: 1 … limit
//	          size           uvarint  1 … limit
//	          data           size bytes
//
// # Control messages
//
//	message   length         u32      1 … MaxMessage, bytes that follow
//	          body           CBOR     array of two: type (unsigned), fields (map)
//
// CBOR (RFC 8949) is written in core deterministic encoding. Indefinite lengths, tags, duplicate
// keys, arrays of more than [MaxChannels] elements, maps of more than 256 pairs and more than 8
// nested levels are refused. Maps have integer keys, shown below. A field that is zero or empty is
// omitted, and null counts as omitted; "!" marks a required field. Unknown keys are skipped. A
// message of unknown type is [Unknown], not an error. A name is an Ach channel name: 1 to 63 bytes
// of A-Z a-z 0-9 - _ . not beginning with a dot; host names follow the same rule. A text is at most
// [MaxText] bytes of printable UTF-8. A node is a byte string of 16 bytes, not all zero. Numbers
// without a limit are u64.
//
//	 1 Hello        1! version  2! host (name)  3! node  4 run  5 machine  6 boot (5 and 6 like a node)
//	                7 start (CLOCK_MONOTONIC when the node started, ns, ≤ 2^59)
//	                8 locks (bool: the node knows Take to Holder)
//	 2 Catalog      1 full (bool)  2 channels (Channel …)  3 gone (name …)
//	 3 Subscribe    1! id  2! channel (name)  3 epoch  4 have seq  5 QoS  6 held (Account)
//	 4 Subscribed   1! id  2 epoch  3 last seq  4! frame count  5! frame size
//	 5 Update       1! id  2 QoS  3 have seq  4 owed (bool)
//	 6 Unsubscribe  1! id
//	 7 Offer        1! id  2! channel (name)  3 as (name; default: channel)  4 QoS
//	                5 generation (of the sender's operator lock)
//	                6 stamps (text: the option stamps; a node that sends start and locks in Hello knows it)
//	 8 Accepted     1! id
//	 9 Refused      1 id  2! type of the refused message  3! code  4 text
//	10 Ledger       1 serving (Account …)  2 holding (Account …)  3 Path
//	11 Bye          1 reason (text)
//	12 Revocations  1! list (1 … MaxRevocations bytes)
//	13 Load         1! id  2 for (ns, ≤ [MaxLoad])  3 up (bool)  4 granted (bool). The load is
//	                frames of sub [LoadSub]. Nodes without load tests skip the message.
//	14 Describe     1! id  2! channel (name). Sent only if the catalog has a layout hash for the
//	                channel, so only to nodes that know the message.
//	15 Layout       1! id  2! packed (1 … [MaxLayout] bytes of CBOR, see package layout; their
//	                SHA-256 is the hash in the catalog)
//
//	16 Key         1! id  2! key id (a byte string of 8)  3! key (a byte string of 32)  4 from
//	17 Stamp       1! t1 (ns, ≤ 2^63-1)  2 t2 (likewise)  3 t3 (likewise, ≥ t2). A query has
//	                neither t2 nor t3.
//	18 Pulled      1! id  2 received  3 waiting (bool)
//	19 Newest      1! id  2! seq
//
// Key to Newest are sent only on links through a hub.
//
//	20 Query       1! id  2! channel (name)
//	21 Take        1! id  2! channel (name)  3 for (ns, ≤ [MaxHold])  4 force (bool)
//	22 Release     1! id  2! channel (name)  3 to (name)
//	23 HolderQuery 1! id  2! channel (name)
//	24 Holder      1 id (of the message that it answers)  2! channel (name)  3 host (name)
//	               4 generation (with a host, and only then)  5 held for  6 left (5 and 6 ns,
//	               ≤ 2^63-1)  7 yours (bool)  8 in grace (bool)
//
// Take to Holder are sent only to nodes whose Hello has locks. A node reports each change of a
// holder to the peers that push the channel.
//
//	Channel   1! name  2! frame count  3! frame size  4 epoch  5 last seq  6 Origin
//	          7 closed (bool)  8 largest (bytes of the largest frame seen, if above the
//	          frame size, ≤ MaxFrame; the receiver may limit it)  9 layout (hash, a byte
//	          string of 32; a node that does not know it skips it)
//	          10 Clock (of the time stamps inside the frames of a mirror)
//	          11 kernel (bool; the frames are in the kernel's Ach module)
//	Clock     1! node  2! host (name)  3! boot (like a node)  4 offset (the sender's
//	          CLOCK_MONOTONIC minus that of the host, ns)  5 error (of the offset, ns). Both
//	          are at most 2^59, and offset may be negative.
//	Origin    1! node  2! host (name)  3! channel (name)
//	QoS       1 budget (ns, ≤ 2^63-1)  2 max rate (mHz, u32)  3 priority + 1 (1 … 8,
//	          default 5)  4 mode (u8)  5 compress (u8; 2 was S2 and is refused)
//	          6 late (u8: 0; others are refused)  7 class (u8)  9 strict (bool; if false,
//	          the mirror puts a late frame that is the newest); 8 is obsolete and skipped
//	Account   1! id (of the subscription; in held, of the mirror)  2 offered
//	          3 delivered  4 late kept  5 superseded
//	          6 rate limited  7 expired  8 lost  9 late  10 refused
//	          11 overflow  12 in flight  13 duplicate  14 repaired
//	          15 waited (ns, ≤ 2^63-1)  16 transit (ns, ≤ 2^63-1)
//	          17 cause (at most [MaxCause] of a-z and _)
//	          18 newest (sequence number of the newest frame that the counts include; in
//	          holding only for a channel that is read at a hub)
//	Path      1 at (ns, ≤ 2^63-1)  2 full (ns, ≤ 2^63-1)  3 rate  4 sent  5 lost
//	          6 waited (%, u8 ≤ 100)
//
// An id is 1 … 2^32-1, a frame count 1 … [MaxFrameCount], a frame size 1 … [MaxFrame] bytes. The two
// lists of a Ledger have at most [MaxChannels] accounts together. A version and a [Code] are
// 1 … 65535.
package wire
