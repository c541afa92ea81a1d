// Package page serves the web page of a daemon: the other files of this directory, unchanged.
//
//	mux.Handle("GET /", page.Handler())
//
// The files need no build. The page loads data only from its daemon: it follows /events, and a click on a
// mirror requests /why. The type feed of package daemon documents the messages.
package page

import (
	"embed"
	"net/http"
)

// files are the web page.
//
//go:embed *.html *.js *.css *.svg
var files embed.FS

// policy is what a browser lets the page do: run and show what comes from here.
// A channel's name that holds HTML or a script could do nothing even if the page
// took it for one.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page.
func Handler() http.Handler {
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // another version may come with the next start
		serve.ServeHTTP(w, r)
	})
}
