package daemon

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd lets so many connections in at a time that nobody keeps others out: when there
// are too many, one makes room that asks for nothing just now. It is the one that has
// asked for nothing for longest of the source that has most such. Connections that are
// being answered stay: who serves them has to see to it that those are fewer.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests []*guest // those that have asked for nothing for longest are first
}

// guest is one connection.
type guest struct {
	net.Conn
	crowd  *crowd
	source string
	asking int // requests that are being answered
}

// Accept waits for a connection.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c, source: sourceOf(conn.RemoteAddr())}
	c.mu.Lock()
	c.guests = append(c.guests, g)
	var leaves *guest
	if len(c.guests) > c.most {
		leaves = c.idlest()
	}
	c.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return g, nil
}

// sourceOf is the address without its port.
func sourceOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.Network()
	}
	return host
}

// idlest needs c.mu. It may be the newest one, if all others are being answered.
func (c *crowd) idlest() (found *guest) {
	idle := map[string]int{}
	for _, g := range c.guests {
		if g.asking == 0 {
			idle[g.source]++
		}
	}
	for _, g := range c.guests {
		if g.asking == 0 && (found == nil || idle[g.source] > idle[found.source]) {
			found = g
		}
	}
	return found
}

// Close ends the connection, which is then no guest any more.
func (g *guest) Close() error {
	c := g.crowd
	c.mu.Lock()
	c.guests = slices.DeleteFunc(c.guests, func(o *guest) bool { return o == g })
	c.mu.Unlock()
	return g.Conn.Close()
}

// guestKey is where a request's context has its guest.
type guestKey struct{}

// know has the contexts of a server's requests tell whose they are.
func (c *crowd) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// answering keeps the connections whose requests next answers.
func (c *crowd) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			c.ask(g, 1)
			defer c.ask(g, -1)
		}
		next.ServeHTTP(w, r)
	})
}

// ask notes that a request begins or ends; the connection is then the latest to have asked.
func (c *crowd) ask(g *guest, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asking += change
	if i := slices.Index(c.guests, g); i >= 0 {
		c.guests = append(slices.Delete(c.guests, i, i+1), g)
	}
}

// waiting has a place for each request that takes its time: so many are answered at a time.
type waiting chan struct{}

// serve has next answer if there is a place, else full does at once.
func (p waiting) serve(next http.HandlerFunc, full func(http.ResponseWriter)) http.HandlerFunc {
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
