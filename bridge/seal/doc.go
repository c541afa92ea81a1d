// Package seal closes frames so that a hub can carry them which nobody trusts.
//
//	key := seal.NewKey()                                  // for one channel; members get it over control
//	s := seal.NewSealer(seal.Origin{Key: key, Node: node}, signer)
//	b, err := s.Seal(b[:0], seal.Frame{Epoch: 7, Seq: 12, Captured: at, Data: data})
//
//	o := seal.NewOpener(seal.Origin{Key: key, Node: node}, public, from)
//	f, err := o.Open(buf[:0], b)
//
// It is pure: bytes in, value out. Only NewKey reads the system's random numbers. A Sealer or
// an Opener belongs to one goroutine.
//
// # The sealed frame
//
// Numbers are big-endian. The frame's bytes are encrypted by AES-256-GCM (NIST SP 800-38D); the
// nonce is 4 bytes of zero and the counter; the additional data is the whole header.
//
//	offset  bytes  field
//	     0      1  version     1
//	     1      1  flags       bit 0: signed
//	                           bit 1: owed, the debt to the newest frame of the ring
//	                           bits 2 … 4: 0
//	                           bits 5 … 7: codec; 0: none, 1: S2 block, 2: Zstandard frame
//	     2      8  key id      of the key that sealed it
//	    10      8  counter     1 … 2^64-1; each frame under a key has a higher one
//	    18     16  node        of the origin
//	    34      8  epoch       of the channel
//	    42      8  seq         1 … 2^64-1, the origin's sequence number
//	    50      8  captured    ns of the origin's CLOCK_MONOTONIC since its node started, at
//	                           most 2^63-1; 0: unknown
//	    58      4  raw size    with a codec 1 … 64 MiB, bytes of the frame before compression;
//	                           else 0
//	    62      n  ciphertext  of the data: n is 1 … 64 MiB
//	  62+n     16  tag         of GCM
//	  78+n     64  signature   only if signed: Ed25519ctx (RFC 8032) of the SHA-256 of all
//	                           before, with the context "achbridge/1 sealed frame"
//
// There is one way to write a frame: whatever else the fields could hold is refused.
//
// # What is promised
//
// A key is 32 random bytes and a random id, made for one channel and one life of its daemon,
// and never derived. A Sealer counts from 1 and cannot be set back, so no nonce is used twice
// under a key; when the counter is used up, it fails.
//
// Whoever does not have the key can change no bit of a frame, and cannot give it to the reader
// of another channel. An Opener takes each counter once and none below an earlier one, so that a
// frame cannot be played again, nor an older one put after a newer. from is the least counter that
// it takes at all: the origin names it with the key, so that frames from before are refused.
//
// All readers of a channel have its key. Under an authority each frame is signed besides, by
// the key of the host's certificate, and a reader takes only what the host has signed that its
// control session is with. Under one shared network key nothing is signed: any member that has
// the key of the channel can seal frames in the name of the origin.
//
// A hub can withhold a frame and deliver it later. Neither is seen here.
package seal
