package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestHTTPRefusesForeignHostHeader(t *testing.T) {
	d := daemonFor(t, newKeyFile(t), "krang", "--http-host", "robot.example.com")
	for _, path := range []string{"/", "/page.js", "/events", "/why?of=imu", "/metrics", "/healthz", "/readyz", "/nothing"} {
		for _, host := range []string{"evil.example", "evil.example:9476", "krang.evil.example", "xkrang", "localhost.evil.example", "1.2.3.4.evil.example", "robot.example.com.evil.example", "krang:80:90", "[::1", "2130706433"} {
			resp, text := d.ask(path, host)
			if resp.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s of %q: got %s, want 421", path, host, resp.Status)
			}
			if !strings.Contains(text, "http_hosts") {
				t.Errorf("%s of %q: got %q, want a text that names http_hosts", path, host, text)
			}
		}
	}
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:9476", "192.168.1.20:80", "[::1]", "[fe80::1]:9476", "localhost", "LOCALHOST:9476", "localhost.",
		"krang", "Krang:9476", "krang.local", "krang.local.:80", "robot.example.com", "ROBOT.example.com:443",
	} {
		if resp, text := d.ask("/metrics", host); resp.StatusCode != http.StatusOK {
			t.Errorf("/metrics of %q: got %s %s", host, resp.Status, text)
		}
	}
	// A load balancer may send HTTP/1.0 requests without a host.
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 421, "/metrics": 421, "/events": 421, "/why?of=imu": 421} {
		if resp, _ := d.send("GET " + path + " HTTP/1.0\r\n\r\n"); resp.StatusCode != want {
			t.Errorf("%s without a host: got %s, want %d", path, resp.Status, want)
		}
	}
}

// ask requests a path of the page with the given Host header. It returns the response and its body.
func (d *daemonProcess) ask(path, host string) (*http.Response, string) {
	d.t.Helper()
	return d.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host))
}

func (d *daemonProcess) send(request string) (*http.Response, string) {
	d.t.Helper()
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		d.t.Fatalf("%q: %v", request, err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, "" // the stream of events does not end
	}
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}
