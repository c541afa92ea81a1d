package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Subjects to which many hosts publish. The hub subscribes to AllMake and AllRead.
const (
	allHere = "ach.*.here"
	AllMake = "ach.*.make"
	AllRead = "ach.*.read"
)

func hereOf(host string) string { return "ach." + token(host) + ".here" }

// MakeOf returns the subject to which a host publishes to ask a hub of ours for a stream; the body is the channel.
func MakeOf(host string) string { return "ach." + token(host) + ".make" }

// ReadOf returns the subject to which a host publishes to ask a hub of ours for its consumer on a stream; see ParseRead.
func ReadOf(host string) string { return "ach." + token(host) + ".read" }

// controlOf is the subject of a byte stream's messages from one host to another.
func controlOf(from, to, session string) string {
	return "ach." + token(from) + ".to." + token(to) + "." + token(session)
}

// controlTo matches all messages of byte streams to a host.
func controlTo(host string) string { return "ach.*.to." + token(host) + ".>" }

// FrameSubject is where the newest frame of a channel is published. Tests of the hub publish there too.
func FrameSubject(host, channel string) string {
	return FramePrefix(host) + channelToken(host, channel)
}

// FramePrefix returns the beginning of all subjects to which a host publishes frames.
func FramePrefix(host string) string { return "ach." + token(host) + ".f." }

// StreamName names the stream of a channel's newest frame.
func StreamName(host, channel string) string { return token(host) + "," + channelToken(host, channel) }

// OwnerOf returns the host whose channel the stream of that name is for.
func OwnerOf(stream string) (string, error) {
	host, _, _ := strings.Cut(stream, ",")
	return nameOf(host)
}

// subjectOf returns the one subject whose messages the stream of that name keeps. It fails for a name that could make a wildcard.
func subjectOf(stream string) (string, error) {
	host, channel, _ := strings.Cut(stream, ",")
	isOther := func(r rune) bool { return r > 0x7f || r != '=' && !plain(byte(r)) }
	if host == "" || channel == "" || len(stream) > maxStreamName || strings.ContainsFunc(host+channel, isOther) {
		return "", fmt.Errorf("stream %.50q: want HOST,CHANNEL", stream)
	}
	return "ach." + host + ".f." + channel, nil
}

// ConsumerName returns the name of a host's consumer, the same on all streams.
func ConsumerName(host string) string { return token(host) }

// InboxPrefix is the beginning of all subjects to which answers to a host go, in tests of the hub too.
func InboxPrefix(host string) string { return "_INBOX." + token(host) }

// maxReply is the greatest length of a reply subject, in bytes. A server keeps the reply subject of a pull while the pull waits.
const maxReply = 400

// IsReplyOf reports whether reply is a subject in the inbox of a host, so that only this host gets the answers.
func IsReplyOf(host, reply string) bool {
	return len(reply) <= maxReply && strings.HasPrefix(reply, InboxPrefix(host)+".")
}

// maxInboxWords is how many words the subjects of a host's inbox have at most, without a wildcard. A server keeps some kilobytes of memory
// for each word of a subscription.
const maxInboxWords = 5

// IsSubscriptionOf reports whether a host needs a subscription to subject at a hub of ours. In its inbox only the last word may be a
// wildcard, so that a message matches at most two of its subscriptions.
func IsSubscriptionOf(host, subject string) bool {
	if subject == allHere || subject == controlTo(host) {
		return true
	}
	words := strings.Split(strings.TrimSuffix(subject, ".*"), ".")
	return IsReplyOf(host, subject) && len(words) <= maxInboxWords && !slices.ContainsFunc(words, func(w string) bool { return w == "" || strings.ContainsAny(w, "*>") })
}

// HostOf is the host that published to a subject below ach.HOST. The hub's permissions, which
// an honest hub enforces, make it true.
func HostOf(subject string) (string, error) {
	words := strings.Split(subject, ".")
	if len(words) < 3 || words[0] != "ach" {
		return "", fmt.Errorf("subject %q: want ach.HOST and more", subject)
	}
	host, err := nameOf(words[1])
	if err != nil {
		return "", fmt.Errorf("subject %q: %w", subject, err)
	}
	return host, nil
}

// parseControl takes the subject of a byte stream's message apart.
func parseControl(subject string) (from, to, session string, err error) {
	words := strings.Split(subject, ".")
	if len(words) != 5 || words[0] != "ach" || words[2] != "to" {
		return "", "", "", fmt.Errorf("subject %q: want ach.FROM.to.TO.SESSION", subject)
	}
	for i, name := range map[int]*string{1: &from, 3: &to, 4: &session} {
		if *name, err = nameOf(words[i]); err != nil {
			return "", "", "", fmt.Errorf("subject %q: %w", subject, err)
		}
	}
	return from, to, session, nil
}

// Permissions are the subjects to which a host may publish and subscribe.
type Permissions struct{ Publish, Subscribe []string }

// PermissionsOf returns the subjects that a hub of ours allows a host.
func PermissionsOf(host string) Permissions {
	t := token(host)
	return Permissions{
		Publish: []string{
			"ach." + t + ".>",
			"$JS.API.CONSUMER.MSG.NEXT.*." + t,
		},
		Subscribe: []string{
			allHere,
			controlTo(host),
			InboxPrefix(host) + ".>",
		},
	}
}

// ForeignPermissionsOf returns the subjects that a nats-server which is no hub of ours must allow a host: there the host makes its
// streams and consumers itself.
func ForeignPermissionsOf(host string) Permissions {
	p, t := PermissionsOf(host), token(host)
	p.Publish = append(p.Publish, "$JS.API.CONSUMER.CREATE.*."+t+".>", "$JS.API.CONSUMER.DELETE.*."+t, streamCreate)
	return p
}

// streamCreate is the subject of requests that make streams.
const streamCreate = "$JS.API.STREAM.CREATE.*"

// maxStreamName is how long a server lets the name of a stream be.
const maxStreamName = 255

// channelToken is the channel's token, or a hash where the stream's name would get too long.
func channelToken(host, channel string) string {
	t := token(channel)
	if len(token(host))+len(",")+len(t) <= maxStreamName {
		return t
	}
	sum := sha256.Sum256([]byte(channel))
	return "=H" + hex.EncodeToString(sum[:16]) // no token has =H
}

// token is a name as one word of a subject.
func token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if plain(name[i]) {
			b.WriteByte(name[i])
		} else {
			fmt.Fprintf(&b, "=%02X", name[i])
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// nameOf is the name of which token made t. Each name has one token: others are refused.
func nameOf(t string) (string, error) {
	var b strings.Builder
	for rest := t; rest != ""; {
		if rest[0] != '=' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if len(rest) < 3 {
			return "", fmt.Errorf("token %q: want two digits after =", t)
		}
		c, err := hex.DecodeString(rest[1:3])
		if err != nil {
			return "", fmt.Errorf("token %q: want two digits after =", t)
		}
		b.WriteByte(c[0])
		rest = rest[3:]
	}
	if name := b.String(); name != "" && token(name) == t {
		return name, nil
	}
	return "", fmt.Errorf("token %q: no name is written so", t)
}
