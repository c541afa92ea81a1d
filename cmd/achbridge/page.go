package main

import (
	"embed"
	"io/fs"
	"net/http"
)

// pageFiles are the web page, as it is: nothing builds it, and it asks nobody but
// this daemon for anything.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy is what a browser lets the page do: run and show what comes from here.
// A channel's name that holds HTML or a script could do nothing even if the page
// took it for one.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func page() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err)
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // another version may come with the next start
		serve.ServeHTTP(w, r)
	})
}
