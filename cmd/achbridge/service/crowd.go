package service

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd limits the number of connections to a server, so that no client can keep others out. If there are too many, it
// closes the connection that has been idle longest. It never closes a connection whose request is being answered; the
// server must limit these itself.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests []*guest // ordered by idle time, the longest idle first
}

// guest is one connection of a crowd.
type guest struct {
	net.Conn
	crowd  *crowd
	asking int // number of requests being answered
}

// Accept waits for the next connection, and closes the longest idle one if there are too many.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c}
	c.mu.Lock()
	c.guests = append(c.guests, g)
	var leaves *guest
	if len(c.guests) > c.most { // closes g itself if all others have requests
		leaves = c.guests[slices.IndexFunc(c.guests, func(o *guest) bool { return o.asking == 0 })]
	}
	c.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return g, nil
}

// Close closes the connection and removes it from the crowd.
func (g *guest) Close() error {
	c := g.crowd
	c.mu.Lock()
	c.guests = slices.DeleteFunc(c.guests, func(o *guest) bool { return o == g })
	c.mu.Unlock()
	return g.Conn.Close()
}

// guestKey is the context key of a request's guest.
type guestKey struct{}

// know adds the guest of a connection to the context of its requests.
func (c *crowd) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// answering wraps next so that a connection is not closed while next answers its request.
func (c *crowd) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			c.ask(g, 1)
			defer c.ask(g, -1)
		}
		next.ServeHTTP(w, r)
	})
}

// ask records that a request begins or ends. The connection becomes the most recently used one.
func (c *crowd) ask(g *guest, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asking += change
	if i := slices.Index(c.guests, g); i >= 0 {
		c.guests = append(slices.Delete(c.guests, i, i+1), g)
	}
}

// Places limits the number of slow requests that are answered at a time.
type Places chan struct{}

// Serve calls next if a place is free, otherwise full.
func (p Places) Serve(next http.HandlerFunc, full func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case p <- struct{}{}:
			defer func() { <-p }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			full(w)
		}
	}
}
