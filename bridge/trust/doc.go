// Package trust decides who is a member of a network: keys, certificates, and the lists
// of those that count no more.
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
//	peer, err := member.Verify(chain)    // who the other end proves to be
//
// Package transport makes sessions by it. The package opens no socket, and the files of
// keys are all that it reads and writes.
//
// # One shared key
//
// Every member holds the same network key. It yields, by HKDF-SHA256, an Ed25519
// certificate authority. Each node issues its own certificate in memory, which names its
// host and node id, and accepts those that the same authority has signed. Nobody looks at
// the dates: a robot's clock may be years off. Any member can name itself anything.
//
// # An authority
//
// Each host holds a certificate of its own, for one year and one name, from an authority
// whose key is on no robot. With it the node signs, in memory, a certificate for 24 hours,
// and shows both. Nobody can then take another host's name or node id. Dates count, by
// the system's clock. The authority revokes certificates by a numbered list, which nodes
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
//	revocations.go    the numbered list of certificates that count no more
//	identity.go       NodeID and Peer, as certificates spell them
package trust
