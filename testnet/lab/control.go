package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/hosts"
)

// request is sent by `lab exec|link|addr` to `lab run`, and answered by a reply: one
// JSON object each, on an abstract unix socket.
type request struct {
	Command string // exec, link, addr
	Target  string `json:",omitempty"`
	Change  string `json:",omitempty"`
}

type reply struct {
	Error string    `json:",omitempty"`
	PID   int       `json:",omitempty"`
	Addr  string    `json:",omitempty"`
	Addr6 string    `json:",omitempty"`
	Links []setting `json:",omitempty"`
}

type setting struct {
	Target, Params                 string
	Sent, Lost, Overflow, Cut, Big uint64
}

// control serves requests of commands in the script.
type control struct {
	name     string
	lab      *hosts.Lab
	listener *net.UnixListener
	done     sync.WaitGroup
}

func listen(lab *hosts.Lab) (*control, error) {
	// "@" is the abstract namespace. The socket exists only as long as this process.
	name := fmt.Sprintf("@achbridge-lab-%d", os.Getpid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c := &control{name: name, lab: lab, listener: l}
	c.done.Go(c.serve)
	return c, nil
}

func (c *control) close() {
	c.listener.Close()
	c.done.Wait()
}

func (c *control) serve() {
	for {
		conn, err := c.listener.AcceptUnix()
		if err != nil {
			return // the listener is closed
		}
		c.done.Go(func() {
			defer conn.Close()
			// A client that sends nothing must not block this goroutine.
			conn.SetDeadline(time.Now().Add(2 * time.Second))
			var q request
			var r reply
			if err := sameUser(conn); err != nil {
				r.Error = err.Error()
			} else if err := json.NewDecoder(conn).Decode(&q); err != nil {
				r.Error = err.Error()
			} else {
				r = c.answer(q)
			}
			json.NewEncoder(conn).Encode(r)
		})
	}
}

// sameUser returns an error if the peer is another user, since abstract sockets have no file mode.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if peerErr != nil {
		return peerErr
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("this lab belongs to user %d, you are %d", os.Geteuid(), peer.Uid)
	}
	return nil
}

func (c *control) answer(q request) (r reply) {
	var err error
	switch q.Command {
	case "exec":
		r.PID, err = c.lab.PID(q.Target)
	case "addr":
		addr, findErr := c.lab.Addr(q.Target)
		addr6, _ := c.lab.Addr6(q.Target)
		r.Addr, r.Addr6, err = addr.String(), addr6.String(), findErr
	case "link":
		if q.Change != "" {
			err = c.lab.Change(q.Target, q.Change)
		}
		for _, s := range c.lab.Settings() {
			n := s.Counts
			r.Links = append(r.Links, setting{s.Target, s.Params.String(), n.Sent, n.Lost, n.Overflow, n.CutOff, n.TooBig})
		}
	default:
		err = fmt.Errorf("%q: no such command", q.Command)
	}
	if err != nil {
		return reply{Error: err.Error()}
	}
	return r
}

// ask sends one request to the lab in which this process runs.
func ask(q request) (reply, error) {
	name := os.Getenv(socketEnv)
	if name == "" {
		return reply{}, usageError{fmt.Errorf("%s works inside a lab only: run it from the SCRIPT of `lab run --hosts … -- SCRIPT` (%s is not set)", q.Command, socketEnv)}
	}
	conn, err := net.Dial("unix", name)
	if err != nil {
		return reply{}, fmt.Errorf("%s: the lab is not there: it has ended, or this runs on one of its hosts (%w)", q.Command, err)
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return reply{}, err
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return reply{}, fmt.Errorf("%s: the lab ended: %w", q.Command, err)
	}
	if r.Error != "" {
		return r, usageError{errors.New(r.Error)}
	}
	return r, nil
}
