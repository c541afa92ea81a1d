package foxglove

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// subprotocols are the names of the protocol. The messages are the same: Foxglove's SDK has renamed the protocol. Each viewer
// asks for one of the names, or for both.
var subprotocols = []string{"foxglove.sdk.v1", "foxglove.websocket.v1"}

// defaultOrigins are the origins of web pages that may connect without being configured.
var defaultOrigins = []string{"https://app.foxglove.dev"}

// options are what a viewer chooses in its URL.
type options struct {
	encoding encoding
	period   time.Duration // least time between two messages of one topic
}

const (
	defaultRate = 60 // messages a second of one topic
	mostRate    = 1000
)

// refusal is why a client may not connect, with its HTTP status.
type refusal struct {
	status int
	text   string
}

// admit checks a request to connect. It returns a refusal unless the client has the token and comes from no other web page
// than those that may connect. The text of a refusal has no token.
func (s *Server) admit(r *http.Request) (options, *refusal) {
	if text := s.checkOrigin(r.Header.Values("Origin")); text != "" {
		return options{}, &refusal{http.StatusForbidden, text}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["token"]) != 1 || !isToken(query.Get("token"), s.cfg.Token) {
		return options{}, &refusal{http.StatusUnauthorized, "the URL has no token or a wrong one: want ws://HOST:PORT/?token=TOKEN, as achbridge run prints it on a terminal; the token is in " + TokenFile + " in the daemon's state directory"}
	}
	o, err := parseOptions(query)
	if err != nil {
		return options{}, &refusal{http.StatusBadRequest, err.Error()}
	}
	if !offersSubprotocol(r.Header.Values("Sec-WebSocket-Protocol")) {
		return options{}, &refusal{http.StatusBadRequest, "the client offers no known subprotocol: want " + strings.Join(subprotocols, " or ")}
	}
	return o, nil
}

// checkOrigin returns why the page that a browser names may not connect, or "". Programs that are no browser send no origin,
// and need only the token.
func (s *Server) checkOrigin(origins []string) string {
	switch {
	case len(origins) == 0:
		return ""
	case len(origins) > 1:
		return "the request has several origins"
	case slices.Contains(defaultOrigins, origins[0]), slices.Contains(s.cfg.Origins(), origins[0]):
		return ""
	}
	return fmt.Sprintf("pages of %.100q may not connect; list the origin in the configuration of the daemon, foxglove: {origins: [...]}, and let achbridge reload read it", origins[0])
}

// parseOptions parses the query of a viewer's URL.
func parseOptions(query url.Values) (options, error) {
	o := options{encoding: encodingCDR, period: time.Second / defaultRate}
	for key, values := range query {
		if len(values) > 1 {
			return o, fmt.Errorf("%.20q occurs %d times in the URL", key, len(values))
		}
		switch value := values[0]; key {
		case "token":
		case "encoding":
			if !slices.Contains(encodings, encoding(value)) {
				return o, fmt.Errorf("encoding %.20q: want cdr, ros1, json or protobuf", value)
			}
			o.encoding = encoding(value)
		case "rate":
			rate, err := strconv.Atoi(value)
			if err != nil || rate < 1 || rate > mostRate {
				return o, fmt.Errorf("rate %.20q: want 1 to %d messages a second", value, mostRate)
			}
			o.period = time.Second / time.Duration(rate)
		default:
			return o, fmt.Errorf("%.20q in the URL: want token, encoding or rate", key)
		}
	}
	return o, nil
}

// offersSubprotocol reports whether one of the headers lists a known subprotocol.
func offersSubprotocol(headers []string) bool {
	for _, header := range headers {
		for name := range strings.SplitSeq(header, ",") {
			if slices.Contains(subprotocols, strings.TrimSpace(name)) {
				return true
			}
		}
	}
	return false
}
