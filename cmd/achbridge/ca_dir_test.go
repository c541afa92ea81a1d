package main

import (
	"errors"
	"testing"
	"time"

	"achbridge/bridge/trust"
)

// A robot with a slow clock still accepts a certificate that has ended by the authority's
// clock. So an ended certificate can still be revoked, and stays in the list.
func TestExpiredCertificatesAreRevocableForAYear(t *testing.T) {
	dir := caDir(t.TempDir())
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	authority, err := trust.NewAuthority(now.AddDate(-4, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(host string, ended time.Duration) string {
		t.Helper()
		key, err := authority.Issue(host, now.AddDate(-1, 0, 0).Add(-ended))
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.record(caEntry{key.Serial(), host, key.Ends()}); err != nil {
			t.Fatal(err)
		}
		return key.Serial()
	}
	const day = 24 * time.Hour
	lately, almost, long := issue("krang", day), issue("atlas", 364*day), issue("old", 366*day)
	expect := func(list *trust.Revocations, want ...string) {
		t.Helper()
		for _, serial := range want {
			if !list.Has(serial) {
				t.Errorf("list %d: %s is not in it", list.Number(), serial)
			}
		}
	}
	first, err := dir.revoke(authority, "krang", now)
	if err != nil {
		t.Fatal(err)
	}
	expect(first, lately)
	second, err := dir.revoke(authority, "atlas", now)
	if err != nil {
		t.Fatal(err)
	}
	expect(second, lately, almost)
	if _, err := dir.revoke(authority, "old", now); !errors.Is(err, errNoneIssued) {
		t.Errorf("certificate expired more than a year ago: got %v, want %v", err, errNoneIssued)
	}
	fresh := issue("new", -300*day)
	third, err := dir.revoke(authority, "new", now.AddDate(0, 0, 10)) // more than a year after the end of atlas's certificate
	if err != nil {
		t.Fatal(err)
	}
	expect(third, lately, fresh)
	if third.Has(almost) || third.Has(long) {
		t.Error("the certificate that expired a year ago is still in the list, want it removed")
	}
}
