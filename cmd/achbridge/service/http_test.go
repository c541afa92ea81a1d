package service

import (
	"strings"
	"testing"

	"achbridge/cmd/achbridge/config"
)

func TestPortAloneIsOpenToThisHostOnly(t *testing.T) {
	for text, want := range map[string]string{":0": "127.0.0.1:", "0.0.0.0:0": "[::]:", "127.0.0.1:0": "127.0.0.1:"} {
		var h config.HTTPAddress
		if err := h.Set(text); err != nil {
			t.Fatal(err)
		}
		ln, err := ListenHTTP(h)
		if err != nil {
			t.Fatal(err)
		}
		if got := ln.Addr().String(); !strings.HasPrefix(got, want) && !strings.HasPrefix(got, text[:len(text)-1]) {
			t.Errorf("http %s listens on %s, want %s", text, got, want)
		}
		ln.Close()
	}
	var off config.HTTPAddress
	if ln, err := ListenHTTP(off); ln != nil || err != nil {
		t.Errorf("off: got %v, %v", ln, err)
	}
}
