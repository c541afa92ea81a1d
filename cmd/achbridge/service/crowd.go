package service

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd limits the connections to a server without letting anybody keep others out: when
// there are too many, the connection that has been idle for longest is closed. Connections
// that are being answered stay; the server must limit these by itself.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests []*guest // those that have been idle for longest come first
}

// guest is one connection.
type guest struct {
	net.Conn
	crowd  *crowd
	asking int // requests that are being answered
}

// Accept waits for a connection.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c}
	c.mu.Lock()
	c.guests = append(c.guests, g)
	var leaves *guest
	if len(c.guests) > c.most { // it is g itself if all others are being answered
		leaves = c.guests[slices.IndexFunc(c.guests, func(o *guest) bool { return o.asking == 0 })]
	}
	c.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return g, nil
}

// Close ends the connection, which is then no guest any more.
func (g *guest) Close() error {
	c := g.crowd
	c.mu.Lock()
	c.guests = slices.DeleteFunc(c.guests, func(o *guest) bool { return o == g })
	c.mu.Unlock()
	return g.Conn.Close()
}

// guestKey is the key of a request's guest in its context.
type guestKey struct{}

// know puts the guest of a connection into the context of its requests.
func (c *crowd) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// answering wraps next: connections are not closed while it answers their requests.
func (c *crowd) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			c.ask(g, 1)
			defer c.ask(g, -1)
		}
		next.ServeHTTP(w, r)
	})
}

// ask notes that a request begins or ends. The connection becomes the last one to be closed.
func (c *crowd) ask(g *guest, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asking += change
	if i := slices.Index(c.guests, g); i >= 0 {
		c.guests = append(slices.Delete(c.guests, i, i+1), g)
	}
}

// waiting limits how many slow requests are answered at a time: each takes a place.
type Places chan struct{}

// serve lets next answer if there is a place, else full answers at once.
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
