package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/foxglove"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// foxgloveServer serves viewers on a listener.
type foxgloveServer struct {
	*foxglove.Server
	ln             net.Listener
	address, token string // URL for viewers, and what it needs in the query
}

// listenFoxglove opens the listener for viewers, with TLS if the configuration has a certificate. It returns nil if viewers are
// not served.
func listenFoxglove(c *config.Config) (net.Listener, error) {
	var secure *tls.Config
	if c.FoxgloveListen != "" && c.FoxgloveCert != "" {
		pair, err := tls.LoadX509KeyPair(c.FoxgloveCert, c.FoxgloveCert)
		if err != nil {
			return nil, ui.Failure(fmt.Errorf("foxglove certificate %s: %w", c.FoxgloveCert, err), "let the daemon's user read a PEM file with the certificate, then its private key")
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	ln, err := service.ListenHTTP("foxglove", c.FoxgloveListen)
	if err != nil || ln == nil || secure == nil {
		return ln, err
	}
	return tls.NewListener(ln, secure), nil
}

// openFoxglove makes the server for viewers, and its token if there is none yet. It does nothing if viewers are not served.
func (d *Daemon) openFoxglove(h Host, p plan) error {
	if d.ports.foxglove == nil {
		return nil
	}
	dir, err := h.StateDir(p.State)
	if err != nil {
		return ui.Failure(fmt.Errorf("foxglove token: %w", err), "--state DIR")
	}
	s := foxgloveServer{ln: d.ports.foxglove}
	path := filepath.Join(dir, foxglove.TokenFile)
	if s.token, err = foxglove.ReadToken(path, config.KeepFile); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return ui.Failure(err, "let the daemon's user read and write it, or name another directory: --state DIR")
		}
		return ui.Failure(err, "")
	}
	s.Server, err = foxglove.New(foxglove.Config{
		Name: p.Name, Dir: d.dir, Token: s.token, Origins: func() []string { return d.config().FoxgloveOrigins }, Node: viewedNode{d.node, d.dir}, Log: d.log,
	})
	if err != nil {
		return ui.Failure(err, "")
	}
	s.address = viewerAddress(s.ln.Addr().String(), p.Name, p.FoxgloveCert != "")
	d.viewers = &s
	d.log.Info("viewers are served", "foxglove", s.address, "token_file", path)
	return nil
}

// viewerAddress returns the URL of a server without the token. If the server listens on all addresses, the URL has the host's name.
func viewerAddress(listen, host string, isSecure bool) string {
	if at, err := netip.ParseAddrPort(listen); err == nil && at.Addr().IsUnspecified() {
		listen = net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
	}
	if isSecure {
		return "wss://" + listen
	}
	return "ws://" + listen
}

// ViewerURL returns the URL for viewers with the token, "" if viewers are not served. The URL must not be logged.
func (d *Daemon) ViewerURL() string {
	if d.viewers == nil {
		return ""
	}
	return d.viewers.address + "/?token=" + d.viewers.token
}

// serve serves viewers until ctx ends, and closes the listener.
func (s *foxgloveServer) serve(ctx context.Context, d *Daemon) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(ctx) })
	group.Go(func() error {
		return service.ServeHTTP(ctx, s.ln, service.ForOurHosts(s, d.httpNames), d.log)
	})
	return group.Wait()
}

// viewedNode is the node as viewers see it.
type viewedNode struct {
	*bridge.Node
	dir localach.Dir
}

// Channels returns the channels of this host and the mirrors, without the helper channels of the daemon, as record does.
func (n viewedNode) Channels() (list []foxglove.Channel) {
	infos, err := n.dir.List()
	if err != nil {
		return nil
	}
	var names []string
	for _, info := range infos {
		if info.Err == nil && !bridge.IsHelper(info.Name, info.Tag) {
			names = append(names, info.Name)
		}
	}
	found, requested := n.Layouts(names)
	ages := map[string]*float64{}
	origins := map[string]string{}
	for _, m := range n.StatusNow().Mirrors {
		ages[m.Name], origins[m.Name] = m.AgeMs, m.Host+"/"+m.Channel
	}
	for _, name := range names {
		c := foxglove.Channel{Name: name, Layout: found[name], IsRequested: requested[name], Origin: origins[name], AgeMs: ages[name]}
		if c.Layout == nil && c.Origin == "" {
			c.Layout = publishedIn(n.dir)(name)
		}
		list = append(list, c)
	}
	return list
}
