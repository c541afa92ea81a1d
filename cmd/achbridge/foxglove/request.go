package foxglove

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Limits of messages from viewers.
const (
	mostRequestBytes  = 256 << 10 // size of a message, bytes
	mostSubscriptions = 1000      // subscriptions of one viewer at a time
)

// request is a message from a viewer.
type request struct {
	subscribe   []subscription
	unsubscribe []uint32
	refused     string // why the server does not do what the message asks for, "" if it does
}

// subscription asks for the messages of an advertised channel, under an ID that the viewer has chosen.
type subscription struct{ id, channel uint32 }

var errNotUTF8 = errors.New("a text message is not valid UTF-8")

// parseText parses a text message, which is untrusted. The error means that the message is not of the protocol, and that the
// connection ends.
func parseText(text []byte) (r request, err error) {
	if !utf8.Valid(text) {
		return r, errNotUTF8
	}
	var m struct {
		Op            string `json:"op"`
		Subscriptions []struct {
			ID      *float64 `json:"id"`
			Channel *float64 `json:"channelId"`
		} `json:"subscriptions"`
		IDs []float64 `json:"subscriptionIds"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return r, errors.New("a text message is not a JSON object of the protocol")
	}
	switch m.Op {
	case "subscribe":
		for _, s := range m.Subscriptions {
			id, isID := toUint32(s.ID)
			channel, isChannel := toUint32(s.Channel)
			if !isID || !isChannel {
				return r, errors.New("subscribe: want id and channelId as whole numbers from 0 to 4294967295")
			}
			r.subscribe = append(r.subscribe, subscription{id, channel})
		}
	case "unsubscribe":
		for _, n := range m.IDs {
			id, isID := toUint32(&n)
			if !isID {
				return r, errors.New("unsubscribe: want subscriptionIds as whole numbers from 0 to 4294967295")
			}
			r.unsubscribe = append(r.unsubscribe, id)
		}
	case "":
		return r, errors.New("a text message has no op")
	default:
		r.refused = fmt.Sprintf("%.40q is not supported: viewers of achbridge only read channels", m.Op)
	}
	return r, nil
}

// toUint32 converts a JSON number; ok is false if it is missing or no uint32.
func toUint32(x *float64) (n uint32, ok bool) {
	if x == nil || *x < 0 || *x > math.MaxUint32 || *x != math.Trunc(*x) {
		return 0, false
	}
	return uint32(*x), true
}

// parseBinary parses a binary message. All of them ask for something that viewers may not do.
func parseBinary(data []byte) (r request, err error) {
	if len(data) == 0 {
		return r, errors.New("a binary message is empty")
	}
	names := map[byte]string{1: "publishing", 2: "calling services"}
	name, known := names[data[0]]
	if !known {
		name = fmt.Sprintf("binary message %d", data[0])
	}
	r.refused = name + " is not supported: viewers of achbridge only read channels"
	return r, nil
}
