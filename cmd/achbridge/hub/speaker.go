package hub

import (
	"strings"

	"achbridge/bridge/hub"
)

// violation is the error for a message that a host may not send.
type violation struct{ text string }

func (v *violation) Error() string { return v.text }

var (
	errUnknownLine   = &violation{"Unknown Protocol Operation"}
	errNotAuthorized = &violation{"Authorization Violation"}
	errHeaders       = &violation{"Permissions Violation for Publish with headers"}
	errReply         = &violation{"Permissions Violation for Publish with a reply subject that is not in the host's inbox"}
	errPull          = &violation{"Permissions Violation for Publish of a pull of another form"}
	errLong          = &violation{"Permissions Violation for Publish of a message that is long and no frame"}
	errSubscription  = &violation{"Permissions Violation for Subscription to a subject that a host does not need"}
	errRepeated      = &violation{"Permissions Violation for Subscription with a subject or id that is in use"}
	errSubscriptions = &violation{"Maximum Subscriptions Exceeded"}
)

const (
	// maxLine is the greatest length of a protocol line from a host, in bytes. The longest line has two subjects.
	maxLine = 4096
	// maxShort limits the size of a message that is not a frame, maxRequest that of a request to the hub. Both are in bytes.
	maxShort   = 16 << 10
	maxRequest = 1 << 10
)

// speaker decides which messages a host may send on one connection. It is stricter than the server's parser, so that both read a line
// alike.
type speaker struct {
	host     string
	subjects map[string]string // subjects of the subscriptions, by subscription id
	ids      map[string]string // ids of the subscriptions, by subject
}

func newSpeaker(host string) *speaker {
	return &speaker{host: host, subjects: map[string]string{}, ids: map[string]string{}}
}

// message describes the payload that follows a protocol line of a host.
type message struct {
	size      int    // size in bytes, with the final CRLF
	body      string // required payload of a fetch; "" for other messages
	isRequest bool   // the message requests a stream or a consumer from the hub
}

// allow checks a protocol line of a host after CONNECT. It returns the message that follows the line, or a violation.
func (s *speaker) allow(line []byte) (message, error) {
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return message{}, errUnknownLine
	}
	operation, rest, _ := strings.Cut(text, " ")
	switch operation {
	case "SUB":
		return message{}, s.subscribe(strings.Split(rest, " "))
	case "UNSUB":
		return message{}, s.unsubscribe(rest)
	case "PING", "PONG":
		return message{}, nil
	case "HPUB":
		return message{}, errHeaders
	case "PUB":
		return s.publish(strings.Split(rest, " "))
	}
	return message{}, errUnknownLine
}

// subscribe checks the words SUBJECT [""] ID of a SUB line. It refuses a second subscription to a subject, which would get every
// message twice.
func (s *speaker) subscribe(words []string) error {
	last := len(words) - 1
	if last < 1 || last > 2 || last == 2 && words[1] != "" {
		return errUnknownLine
	}
	subject, id := words[0], words[last]
	_, ok := sizeOf(id)
	switch {
	case !ok:
		return errUnknownLine
	case !hub.IsSubscriptionOf(s.host, subject):
		return errSubscription
	case s.subjects[id] != "" || s.ids[subject] != "":
		return errRepeated
	case len(s.ids) >= maxSubscriptions:
		return errSubscriptions
	}
	s.subjects[id], s.ids[subject] = subject, id
	return nil
}

// unsubscribe checks the rest of an UNSUB line, which must be an id only. It refuses the optional maximum of messages, since the front
// cannot know when that is reached.
func (s *speaker) unsubscribe(rest string) error {
	id := strings.TrimSuffix(rest, " ")
	if _, ok := sizeOf(id); !ok {
		return errUnknownLine
	}
	delete(s.ids, s.subjects[id])
	delete(s.subjects, id)
	return nil
}

// publish checks the words SUBJECT [REPLY] SIZE of a PUB line.
func (s *speaker) publish(words []string) (message, error) {
	last := len(words) - 1
	if last < 1 || last > 2 || words[0] == "" {
		return message{}, errUnknownLine
	}
	size, ok := sizeOf(words[last])
	m := message{size: size + len("\r\n"), isRequest: words[0] == hub.MakeOf(s.host) || words[0] == hub.ReadOf(s.host)}
	switch {
	case !ok:
		return message{}, errUnknownLine
	case last == 2 && !hub.IsReplyOf(s.host, words[1]):
		return message{}, errReply
	case size > maxShort && !strings.HasPrefix(words[0], hub.FramePrefix(s.host)), size > maxRequest && m.isRequest:
		return message{}, errLong
	}
	if strings.HasPrefix(words[0], hub.FetchPrefix) { // another payload could request a heartbeat every nanosecond
		if m.body = hub.FetchBody; size != len(m.body) {
			return message{}, errPull
		}
	}
	return m, nil
}

// sizeOf parses a number of at most nine digits as the server does.
func sizeOf(word string) (size int, ok bool) {
	for _, c := range []byte(word) {
		if c < '0' || c > '9' {
			return 0, false
		}
		size = 10*size + int(c-'0')
	}
	return size, word != "" && len(word) < 10
}
