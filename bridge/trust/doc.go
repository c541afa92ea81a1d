// Package trust decides which nodes are members of a network. It has the keys, the
// certificates and the lists of revoked certificates.
//
//	key := trust.NewKey()                    // one key that all hosts share
//	err := key.Write("/etc/achbridge/key")
//	key, err = trust.ReadKey("/etc/achbridge/key")
//
//	ca, err := trust.NewAuthority(time.Now()) // or a key for each host
//	key, err = ca.Issue("krang", time.Now())
//
//	member, err := trust.NewMember(key, trust.Peer{Host: "krang", Node: key.Node()}, nil)
//	own, err := member.Certificate()     // presented in TLS handshakes
//	peer, err := member.Verify(chain)    // the identity that the peer has proved
//
// Package transport uses Members for sessions. This package opens no socket. It reads and
// writes only key files.
//
// # One shared key
//
// All members have the same network key. HKDF-SHA256 derives an Ed25519 certificate
// authority from it. Each node issues its own certificate in memory, which names its host
// and node id. It accepts certificates that the same authority has signed. Dates are
// ignored, since a robot's clock may be years off. A member can choose any name.
//
// # An authority
//
// Each host has its own certificate, for one year and one name, from an authority whose key
// is on no robot. With this certificate the node signs, in memory, a session certificate for
// 24 hours, and presents both. So no host can take another host's name or node id. Dates are
// checked against the system clock. The authority revokes certificates by a numbered list,
// which nodes distribute.
//
// # Files
//
//	member.go         Member: a node's own certificate, and the verification of peers
//	shared_anchor.go  trust in a shared key
//	host_anchor.go    trust in an authority
//	key.go            Key, and the change from one shared key to another
//	key_file.go       the files of keys
//	host_key.go       the key of one host
//	authority.go      Authority: issues the keys of hosts
//	revocations.go    the numbered list of revoked certificates
//	identity.go       NodeID and Peer, and their form in certificates
package trust
