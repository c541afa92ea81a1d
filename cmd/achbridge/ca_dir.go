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

// caDir is the path of the directory of a network's authority. The directory holds the
// authority's secret, a line for each issued certificate, and the revocation list. It
// should not be kept on a robot.
type caDir string

func (d caDir) authority() string { return filepath.Join(string(d), "authority") }

func (d caDir) issued() string { return filepath.Join(string(d), "issued") }

func (d caDir) revoked() string { return filepath.Join(string(d), "revoked") }

// caEntry describes an issued certificate.
type caEntry struct {
	serial, host string
	ends         time.Time
}

// record appends e to the file of issued certificates, as a line "SERIAL HOST END".
func (d caDir) record(e caEntry) error {
	f, err := os.OpenFile(d.issued(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, e.serial, e.host, e.ends.UTC().Format(time.RFC3339))
	return errors.Join(err, f.Sync(), f.Close())
}

// revocableYears is how many years after its end a certificate can still be revoked and stays
// in the list. A robot whose clock is slow by that time still accepts the certificate.
const revocableYears = 1

// entries returns the issued certificates that a robot with a slow clock may still accept.
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

// errNoneIssued is returned by revoke if the host has no certificate to revoke.
var errNoneIssued = errors.New("that host has no valid certificate")

// revoke adds all certificates of host to the revocation list and replaces the list's file.
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

// list returns the certificates of entries, ordered by host and end.
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
