package bridge

import (
	"strings"
	"testing"
)

func TestInvalidHostNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "my robot", "röbot", "a/b", ".robot", strings.Repeat("x", 64)} {
		if _, err := New(Config{Host: name}); err == nil || !strings.Contains(err.Error(), "--name") {
			t.Errorf("%q: got %v, want an error that names --name", name, err)
		}
	}
	if _, err := New(Config{Host: "krang-2.lab"}); err != nil {
		t.Errorf("krang-2.lab: got %v, want it accepted", err)
	}
}

func TestConfigErrorsHaveFixedOrder(t *testing.T) {
	bad := []string{"["}
	for range 50 {
		_, err := New(Config{Host: "krang", Relay: bad, Adopt: bad})
		if err == nil || strings.Index(err.Error(), "relay[0]") > strings.Index(err.Error(), "adopt[0]") {
			t.Fatalf("got %v, want relay before adopt", err)
		}
	}
}
