package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The subjects to which many hosts publish. The hub subscribes to AllMake and AllRead.
const (
	allHere = "ach.*.here"
	AllMake = "ach.*.make"
	AllRead = "ach.*.read"
)

func hereOf(host string) string { return "ach." + token(host) + ".here" }

// MakeOf returns the subject on which a host asks one of our hubs for a stream. The body is the
// channel.
func MakeOf(host string) string { return "ach." + token(host) + ".make" }

// ReadOf returns the subject on which a host asks one of our hubs for its consumer on a stream;
// see ParseRead.
func ReadOf(host string) string { return "ach." + token(host) + ".read" }

// controlOf returns the subject of a byte stream's messages from one host to another.
func controlOf(from, to, session string) string {
	return "ach." + token(from) + ".to." + token(to) + "." + token(session)
}

// controlTo returns a wildcard subject for all byte stream messages to a host.
func controlTo(host string) string { return "ach.*.to." + token(host) + ".>" }

// FrameSubject returns the subject of a channel's newest frame. Tests of the hub publish there
// too.
func FrameSubject(host, channel string) string {
	return FramePrefix(host) + channelToken(host, channel)
}

// FramePrefix returns the beginning of all subjects to which a host publishes frames.
func FramePrefix(host string) string { return "ach." + token(host) + ".f." }

// StreamName returns the name of the stream that keeps a channel's newest frame.
func StreamName(host, channel string) string { return token(host) + "," + channelToken(host, channel) }

// OwnerOf returns the host whose channel the named stream keeps.
func OwnerOf(stream string) (string, error) {
	host, _, _ := strings.Cut(stream, ",")
	return nameOf(host)
}

// subjectOf returns the only subject of the named stream. It fails if the name could result in a
// wildcard.
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

// InboxPrefix returns the prefix of all subjects of answers to a host. Tests of the hub use it
// too.
func InboxPrefix(host string) string { return "_INBOX." + token(host) }

// maxReply is the maximum length of a reply subject, in bytes. A server stores the reply subject
// of a fetch while the fetch waits.
const maxReply = 400

// IsReplyOf reports whether reply is a subject in the inbox of a host, so that only this host gets the answers.
func IsReplyOf(host, reply string) bool {
	return len(reply) <= maxReply && strings.HasPrefix(reply, InboxPrefix(host)+".")
}

// maxInboxWords is the maximum number of words in a subject of a host's inbox, without a wildcard.
// A server needs some kilobytes of memory for each token of a subscription.
const maxInboxWords = 5

// IsSubscriptionOf reports whether a host needs a subscription to subject at one of our hubs. In
// its inbox only the last word may be a wildcard, so that a message matches at most two of its
// subscriptions.
func IsSubscriptionOf(host, subject string) bool {
	if subject == allHere || subject == controlTo(host) {
		return true
	}
	words := strings.Split(strings.TrimSuffix(subject, ".*"), ".")
	return IsReplyOf(host, subject) && len(words) <= maxInboxWords && !slices.ContainsFunc(words, func(w string) bool { return w == "" || strings.ContainsAny(w, "*>") })
}

// HostOf returns the host that published to a subject below ach.HOST. This is reliable as far as
// the hub enforces its permissions, as an honest hub does.
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

// parseControl splits the subject of a byte stream's message.
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

// PermissionsOf returns the subjects that our hubs allow a host.
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

// ForeignPermissionsOf returns the subjects that a nats-server which is not one of our hubs must
// allow a host. There the host creates its streams and consumers itself.
func ForeignPermissionsOf(host string) Permissions {
	p, t := PermissionsOf(host), token(host)
	p.Publish = append(p.Publish, "$JS.API.CONSUMER.CREATE.*."+t+".>", "$JS.API.CONSUMER.DELETE.*."+t, streamCreate)
	return p
}

// streamCreate is the subject of requests that create streams.
const streamCreate = "$JS.API.STREAM.CREATE.*"

// maxStreamName is the server's limit for the name of a stream, in bytes.
const maxStreamName = 255

// channelToken returns the channel's token, or a hash if the stream's name would be too long.
func channelToken(host, channel string) string {
	t := token(channel)
	if len(token(host))+len(",")+len(t) <= maxStreamName {
		return t
	}
	sum := sha256.Sum256([]byte(channel))
	return "=H" + hex.EncodeToString(sum[:16]) // tokens never contain =H
}

// token encodes a name as one word of a subject.
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

// nameOf decodes a token. It accepts only the one token that token returns for a name.
func nameOf(t string) (string, error) {
	name, err := url.PathUnescape(strings.ReplaceAll(t, "=", "%"))
	if err != nil || name == "" || token(name) != t {
		return "", fmt.Errorf("token %q: not an encoded name", t)
	}
	return name, nil
}
