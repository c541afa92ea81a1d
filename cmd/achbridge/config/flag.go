package config

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"achbridge/bridge/via"
)

// parsed is a flag whose text is converted by parse.
type parsed[T any] struct {
	value *T
	kind  string // placeholder of the value in help
	parse func(text string) (T, error)
	text  func(T) string
}

func (p parsed[T]) String() string { return p.text(*p.value) }
func (p parsed[T]) Type() string   { return p.kind }

func (p parsed[T]) Set(text string) error {
	v, err := p.parse(text)
	if err == nil {
		*p.value = v
	}
	return err
}

func itself(text string) string { return text }

// TransportFlag returns the flag for the protocol of links.
func TransportFlag(over *via.Kind) pflag.Value {
	return parsed[via.Kind]{over, "TRANSPORT", via.Parse, via.Kind.String}
}

// AddressFlag returns the flag for a TCP address on which to listen; "" or off means none.
func AddressFlag(at *string, example string) pflag.Value {
	return parsed[string]{at, "ADDRESS", func(text string) (string, error) {
		if text == "off" {
			return "", nil
		}
		if _, err := net.ResolveTCPAddr("tcp", text); text != "" && err != nil {
			return "", fmt.Errorf("%q: want :PORT, ADDRESS:PORT or off, as in %s", text, example)
		}
		return text, nil
	}, itself}
}
