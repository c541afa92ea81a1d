package service

import (
	"strings"
	"testing"
)

func TestPortWithoutAddressListensOnLoopback(t *testing.T) {
	for text, want := range map[string]string{":0": "127.0.0.1:", "0.0.0.0:0": "[::]:", "127.0.0.1:0": "127.0.0.1:"} {
		ln, err := ListenHTTP("http", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := ln.Addr().String(); !strings.HasPrefix(got, want) && !strings.HasPrefix(got, text[:len(text)-1]) {
			t.Errorf("http %s listens on %s, want %s", text, got, want)
		}
		ln.Close()
	}
	if ln, err := ListenHTTP("http", ""); ln != nil || err != nil {
		t.Errorf("without an address: got %v, %v, want no listener and no error", ln, err)
	}
}
