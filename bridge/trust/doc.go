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
//	own, err := member.Certificate()     // what this node shows in a TLS handshake
//	peer, err := member.Verify(chain)    // the identity that the other end proves
//
// Package transport uses it for sessions. The package opens no socket. It reads and writes
// only key files.
//
// # One shared key
//
// Every member holds the same network key. It yields, by HKDF-SHA256, an Ed25519
// certificate authority. Each node issues its own certificate in memory, which names its
// host and node id, and accepts certificates that the same authority has signed. Dates are
// ignored, since a robot's clock may be years off. A member can choose any name.
//
// # An authority
//
// Each host holds a certificate of its own, for one year and one name, from an authority
// whose key is on no robot. With it the node signs, in memory, a certificate for 24 hours,
// and shows both. Then no host can take another host's name or node id. Dates are checked
// by the system's clock. The authority revokes certificates by a numbered list, which nodes
// pass on.
//
// # Files
//
//	member.go         Member: what a node shows, and how it judges what peers show
//	shared_anchor.go  trust in a shared key
//	host_anchor.go    trust in an authority
//	key.go            Key, and the change from one shared key to another
//	key_file.go       the files of keys
//	host_key.go       the key of one host
//	authority.go      Authority: issues the keys of hosts
//	revocations.go    the numbered list of revoked certificates
//	identity.go       NodeID and Peer, as certificates spell them
package trust
