package trust_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log"

	"achbridge/bridge/trust"
)

// All holders of the same key are members. Nobody else is a member.
func ExampleMember() {
	key := trust.NewKey()
	robot, err := trust.NewMember(key, trust.Peer{Host: "krang", Node: trust.NodeID{1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	shown, err := robot.Certificate()
	if err != nil {
		log.Fatal(err)
	}
	cert, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		log.Fatal(err)
	}
	for _, held := range []trust.Key{key, trust.NewKey()} {
		pc, err := trust.NewMember(held, trust.Peer{Host: "pc", Node: trust.NodeID{2}}, nil)
		if err != nil {
			log.Fatal(err)
		}
		peer, err := pc.Verify([]*x509.Certificate{cert})
		fmt.Printf("%q, stranger: %v\n", peer.Host, errors.Is(err, trust.ErrWrongKey))
	}
	// Output:
	// "krang", stranger: false
	// "", stranger: true
}
