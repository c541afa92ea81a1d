// Package seal encrypts and authenticates frames, so that an untrusted hub can carry them.
//
//	key := seal.NewKey()                                  // for one channel; members get it over control
//	s := seal.NewSealer(seal.Origin{Key: key, Node: node}, signer)
//	b, err := s.Seal(b[:0], seal.Frame{Epoch: 7, Seq: 12, Captured: at, Data: data})
//
//	o := seal.NewOpener(seal.Origin{Key: key, Node: node}, public, from)
//	f, err := o.Open(buf[:0], b)
//
// The package does no I/O. Only NewKey uses a source of randomness. A Sealer or an Opener belongs to one goroutine.
//
// # The sealed frame
//
// Numbers are big-endian. The frame's bytes are encrypted by AES-256-GCM (NIST SP 800-38D); the
// nonce is 4 bytes of zero and the counter; the additional data is the whole header.
//
//	offset  bytes  field
//	     0      1  version     1
//	     1      1  flags       bit 0: signed
//	                           bit 1: last-value delivery of the newest frame of the ring
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
// A frame has only one encoding: any other value of a field is refused.
//
// # Guarantees
//
// A key is 32 random bytes and a random id. It is generated for one channel and one incarnation of the daemon, and never
// derived. A Sealer counts from 1 and cannot be reset, so no nonce is used twice under a key. When the counter is
// exhausted, the Sealer fails.
//
// Without the key, an attacker can change no bit of a frame, and cannot give the frame to readers of another channel. An
// Opener accepts each counter once, and none below an earlier one. So a frame cannot be replayed, and an older frame
// cannot follow a newer one. from is the lowest counter that an Opener accepts. The origin sends it with the key, so
// that earlier frames are refused.
//
// All readers of a channel have its key. Under an authority, each frame is also signed with the key of the host's
// certificate. A reader then accepts only frames signed by the host at the other end of its control session. Under one
// shared network key, frames are not signed. Any member that has the channel's key can then seal frames in the name of
// the origin.
//
// A hub can withhold a frame, or deliver it late. This package detects neither.
package seal
