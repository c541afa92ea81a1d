package view

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/api"
)

// A control socket may return anything. view returns only a valid layout, or none.
func TestLayoutOfOriginIsValidated(t *testing.T) {
	t.Parallel()
	good := layout.Layout{Name: "imu", Size: 1, Fields: []layout.Field{{Name: "n", Type: layout.Uint8}}}
	encoded, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sock")
	if l, err := OriginLayout(t.Context(), api.New(path), "krang.imu"); l != nil || err != nil {
		t.Errorf("without a daemon: got %v, %v, want no layout and no error", l, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]func(http.ResponseWriter){
		"good": func(w http.ResponseWriter) { reply(w, api.LayoutReply{Host: "krang", Layout: encoded}) },
		"none": func(w http.ResponseWriter) { reply(w, api.LayoutReply{Host: "krang"}) },
		"why": func(w http.ResponseWriter) {
			reply(w, api.LayoutReply{Host: "krang", Channel: "imu", Why: "it sleeps"})
		},
		"bad": func(w http.ResponseWriter) {
			reply(w, api.LayoutReply{Host: "krang", Channel: "imu", Layout: encoded[1:]})
		},
		"older":  func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) },
		"broken": func(w http.ResponseWriter) { http.Error(w, "{", http.StatusOK) },
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Query().Get("of")](w) })}
	go func() { _ = server.Serve(ln) }()
	defer server.Close()
	for name, want := range map[string]string{"good": "", "none": "", "older": "", "why": "krang has a layout of imu, but it sleeps", "bad": "not a layout", "broken": "cannot be read"} {
		l, err := OriginLayout(t.Context(), api.New(path), name)
		if (l != nil) != (name == "good") || (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", name, l, err, want)
		}
		if errors.Is(err, ErrNoAnswer) != (name == "broken") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func reply(w http.ResponseWriter, r api.LayoutReply) { _ = json.NewEncoder(w).Encode(r) }
