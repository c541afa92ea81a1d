package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/config"
)

// caDir is the directory of a network's authority: its secret, a line for every
// certificate that it has issued, and the list of those that it has revoked. It
// belongs on no robot.
type caDir string

func (d caDir) authority() string { return filepath.Join(string(d), "authority") }

func (d caDir) issued() string { return filepath.Join(string(d), "issued") }

func (d caDir) revoked() string { return filepath.Join(string(d), "revoked") }

// caEntry is a certificate that was issued.
type caEntry struct {
	serial, host string
	ends         time.Time
}

// record adds a certificate to those that were issued. A line is SERIAL HOST END.
func (d caDir) record(e caEntry) error {
	f, err := os.OpenFile(d.issued(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, e.serial, e.host, e.ends.UTC().Format(time.RFC3339))
	return errors.Join(err, f.Sync(), f.Close())
}

// revocableYears is how long after its end a certificate can be revoked and stays in the
// list: the clock of a robot that still takes it for good may be slow by as much.
const revocableYears = 1

// entries are the certificates that may be good by the clock of some robot.
func (d caDir) entries(now time.Time) ([]caEntry, error) {
	text, err := os.ReadFile(d.issued())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []caEntry
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s:%d: want SERIAL HOST END", d.issued(), n)
		}
		ends, err := time.Parse(time.RFC3339, words[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", d.issued(), n, err)
		}
		if ends.AddDate(revocableYears, 0, 0).After(now) {
			list = append(list, caEntry{words[0], words[1], ends})
		}
	}
	return list, nil
}

// errNoneIssued says that there is nothing to revoke.
var errNoneIssued = errors.New("no certificate of that host is good")

// revoke makes the next list, which has all certificates of host too, and writes it
// in the place of the last.
func (d caDir) revoke(a trust.Authority, host string, now time.Time) (*trust.Revocations, error) {
	entries, err := d.entries(now)
	if err != nil {
		return nil, err
	}
	last, err := config.ReadRevocations(d.revoked())
	if err != nil {
		return nil, err
	}
	var serials []string
	more := false
	for _, e := range entries {
		if e.host == host || last.Has(e.serial) {
			more = more || !last.Has(e.serial)
			serials = append(serials, e.serial)
		}
	}
	if !more {
		return nil, errNoneIssued
	}
	next, err := a.Revoke(last.Number()+1, serials, now)
	if err != nil {
		return nil, err
	}
	return next, config.ReplaceFile(d.revoked(), []byte(next.Text()), 0o644)
}

// list are the keys that entries has, ordered by host and end.
func (d caDir) list(now time.Time) ([]caListed, error) {
	entries, err := d.entries(now)
	if err != nil {
		return nil, err
	}
	revoked, err := config.ReadRevocations(d.revoked())
	if err != nil {
		return nil, err
	}
	list := []caListed{}
	for _, e := range entries {
		state := "valid"
		switch {
		case revoked.Has(e.serial):
			state = "revoked"
		case e.ends.Before(now):
			state = "ended"
		}
		list = append(list, caListed{Host: e.host, Serial: e.serial, Ends: e.ends, State: state})
	}
	slices.SortStableFunc(list, func(x, y caListed) int {
		return cmp.Or(strings.Compare(x.Host, y.Host), x.Ends.Compare(y.Ends))
	})
	return list, nil
}
