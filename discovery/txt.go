package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	txtVersion  = "1"
	maxTXT      = 1000 // maximum number of bytes in our TXT record; with addresses it then fits into one Ethernet packet
	maxStrings  = 160  // maximum number of strings in another host's TXT record
	maxChannels = 128  // maximum number of channels in another host's TXT record

	maxFrameCount   = 1 << 24
	maxFrameSize    = 64 << 20
	maxChannelBytes = 1 << 40
)

var (
	errVersion  = errors.New("another version of the announcement")
	errGeometry = fmt.Errorf("frames: not 1..%d frames of 1..%d bytes", maxFrameCount, maxFrameSize)
)

// check returns an error if Ach does not accept the name, or if a channel of that size cannot be mapped.
func (c Channel) check() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if c.FrameCount < 1 || c.FrameCount > maxFrameCount || c.FrameSize < 1 || c.FrameSize > maxFrameSize ||
		int64(c.FrameCount)*int64(c.FrameSize) > maxChannelBytes {
		return errGeometry
	}
	return nil
}

// buildTXT returns the strings of a TXT record (RFC 6763, section 6): the node, as many channels as fit into maxTXT, and
// more=N for the other channels. p must be valid.
func buildTXT(p Peer, port int) []string {
	txt := []string{
		"v=" + txtVersion,
		"net=" + p.Network,
		"node=" + p.Node,
		"port=" + strconv.Itoa(port),
		"life=" + strconv.Itoa(int(p.lifetime/time.Second)),
	}
	if p.Ports.QUIC != 0 {
		txt = append(txt, keyQUIC+"="+strconv.Itoa(int(p.Ports.QUIC)))
	}
	if p.Ports.SCTP != 0 {
		txt = append(txt, keySCTP+"="+strconv.Itoa(int(p.Ports.SCTP)))
	}
	size := len("more=4294967295") + 1
	for _, s := range txt {
		size += len(s) + 1
	}
	more := p.More
	for i, c := range p.Channels {
		s := fmt.Sprintf("ch.%s=%dx%d", c.Name, c.FrameCount, c.FrameSize)
		if size += len(s) + 1; size > maxTXT || i == maxChannels {
			more += len(p.Channels) - i
			break
		}
		txt = append(txt, s)
	}
	if more > 0 {
		txt = append(txt, "more="+strconv.Itoa(more))
	}
	return txt
}

// parseTXT parses the strings of a TXT record of any host. A known key with an invalid value is an error. Unknown keys are
// skipped. The first of repeated keys counts. port is 0 if it is missing. The strings are in the presentation form of
// miekg/dns, in which no valid value needs an escape.
func parseTXT(txt []string) (p Peer, port int, err error) {
	if len(txt) > maxStrings {
		return Peer{}, 0, fmt.Errorf("txt: more than %d strings", maxStrings)
	}
	r := txtReader{seenKeys: make(map[string]bool, len(txt))}
	for _, s := range txt {
		if err := r.read(s); err != nil {
			return Peer{}, 0, err
		}
	}
	if r.version != txtVersion {
		return Peer{}, 0, errVersion
	}
	if r.peer.Node == "" || r.peer.Network == "" {
		return Peer{}, 0, errors.New("txt: without node or net")
	}
	if err := r.peer.Ports.check(); err != nil {
		return Peer{}, 0, fmt.Errorf("txt: %w", err)
	}
	if r.peer.lifetime == 0 {
		r.peer.lifetime = defaultLifetime
	}
	slices.SortFunc(r.peer.Channels, byName)
	return r.peer, r.port, nil
}

func byName(a, b Channel) int { return cmp.Compare(a.Name, b.Name) }

type txtReader struct {
	seenKeys map[string]bool
	version  string
	peer     Peer
	port     int
}

func (r *txtReader) read(s string) error {
	key, value, _ := strings.Cut(s, "=")
	name, isChannel := strings.CutPrefix(key, "ch.")
	if !isChannel {
		key = strings.ToLower(key)
	}
	if r.seenKeys[key] {
		return nil
	}
	r.seenKeys[key] = true
	if isChannel {
		return r.readChannel(name, value)
	}
	switch key {
	case "v":
		r.version = value
	case "net":
		return hexValue(&r.peer.Network, key, value, 8)
	case "node":
		return hexValue(&r.peer.Node, key, value, 32)
	case "port":
		return number(&r.port, key, value, 65535)
	case keyQUIC:
		return portValue(&r.peer.Ports.QUIC, key, value)
	case keySCTP:
		return portValue(&r.peer.Ports.SCTP, key, value)
	case "more":
		return number(&r.peer.More, key, value, 1<<20)
	case "life":
		var seconds int
		err := number(&seconds, key, value, int(maxLifetime/time.Second))
		r.peer.lifetime = time.Duration(seconds) * time.Second
		return err
	}
	return nil
}

func (r *txtReader) readChannel(name, value string) error {
	count, size, ok := strings.Cut(value, "x")
	c := Channel{Name: name}
	if err := errors.Join(number(&c.FrameCount, "count", count, maxFrameCount),
		number(&c.FrameSize, "size", size, maxFrameSize), c.check()); !ok || err != nil {
		return fmt.Errorf("txt: ch.%.80q=%.40q: %w", name, value, cmp.Or(err, errGeometry))
	}
	if len(r.peer.Channels) == maxChannels {
		return fmt.Errorf("txt: more than %d channels", maxChannels)
	}
	r.peer.Channels = append(r.peer.Channels, c)
	return nil
}

func hexValue(dst *string, key, value string, digits int) error {
	if !isHex(value, digits) || strings.Trim(value, "0") == "" {
		return fmt.Errorf("txt: %s=%.40q: not %d hex digits", key, value, digits)
	}
	*dst = value
	return nil
}

func portValue(dst *uint16, key, value string) error {
	var port int
	err := number(&port, key, value, 65535)
	*dst = uint16(port)
	return err
}

// number parses a decimal number from 1 to limit, without sign, leading zero or blank.
func number(dst *int, key, value string, limit int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > limit || strconv.Itoa(n) != value {
		return fmt.Errorf("txt: %s=%.40q: not a number from 1 to %d", key, value, limit)
	}
	*dst = n
	return nil
}
