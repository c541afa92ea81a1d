package service

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connLimiter limits the number of connections to a server, so that no client can keep others out. If there are too many, it
// closes the connection that has been idle longest. It never closes a connection whose request is being answered; the
// server must limit these itself.
type connLimiter struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns []*limitedConn // ordered by idle time, the longest idle first
}

// limitedConn is one connection of a crowd.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	asking  int // number of requests being answered
}

// Accept waits for the next connection, and closes the longest idle one if there are too many.
func (c *connLimiter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &limitedConn{Conn: conn, limiter: c}
	c.mu.Lock()
	c.conns = append(c.conns, g)
	var leaves *limitedConn
	if len(c.conns) > c.most { // closes g itself if all others have requests
		leaves = c.conns[slices.IndexFunc(c.conns, func(o *limitedConn) bool { return o.asking == 0 })]
	}
	c.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return g, nil
}

// Close closes the connection and removes it from the crowd.
func (g *limitedConn) Close() error {
	c := g.limiter
	c.mu.Lock()
	c.conns = slices.DeleteFunc(c.conns, func(o *limitedConn) bool { return o == g })
	c.mu.Unlock()
	return g.Conn.Close()
}

// limitedConnKey is the context key of a request's guest.
type limitedConnKey struct{}

// know adds the guest of a connection to the context of its requests.
func (c *connLimiter) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, limitedConnKey{}, conn)
}

// answering wraps next so that a connection is not closed while next answers its request.
func (c *connLimiter) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(limitedConnKey{}).(*limitedConn); ok {
			c.ask(g, 1)
			defer c.ask(g, -1)
		}
		next.ServeHTTP(w, r)
	})
}

// ask records that a request begins or ends. The connection becomes the most recently used one.
func (c *connLimiter) ask(g *limitedConn, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asking += change
	if i := slices.Index(c.conns, g); i >= 0 {
		c.conns = append(slices.Delete(c.conns, i, i+1), g)
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
