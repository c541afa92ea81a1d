package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// browser is a headless Chromium with one page. It collects the errors and requests of the page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu            sync.Mutex
	problems      []string // errors in the console of the page
	requestedURLs []string // URLs that the page has requested
}

// newBrowser starts a browser that ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	return startBrowser(t, need.Program(t, "chromium", "chromium"))
}

// startBrowser starts the program at path, which is Chromium or a script that executes it.
func startBrowser(t *testing.T, path string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		end()
	})
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.handleEvent); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

func (b *browser) handleEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			problem += " " + o.Description
		}
	case *runtime.EventConsoleAPICalled:
		problem = fmt.Sprintf("console.%s", e.Type)
		for _, o := range e.Args {
			problem += fmt.Sprintf(" %s%s", o.Value, o.Description)
		}
	case *cdplog.EventEntryAdded:
		problem = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		b.requestedURLs = append(b.requestedURLs, e.Request.URL)
	}
	if problem != "" && !slices.Contains(b.problems, problem) {
		b.problems = append(b.problems, problem)
	}
}

// clean fails the test if the page had errors or requested a URL that does not begin with
// origin.
func (b *browser) clean(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("error in the console: %s", p)
	}
	for _, url := range b.requestedURLs {
		if !strings.HasPrefix(url, origin) {
			b.t.Errorf("the page requests %s, want only URLs of %s", url, origin)
		}
	}
	if len(b.requestedURLs) < 5 {
		b.t.Errorf("requests: got %q, want the page and its parts", b.requestedURLs)
	}
}

// do runs an action in the page and returns its result.
func do[T any](b *browser, what chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Limit)
	defer cancel()
	v, err := chromedp.Run(ctx, what)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// call sends a command of its debugging protocol to the browser.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	do(b, chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
		_, err := cdp.Call(ctx, page, command, params)
		return err
	}))
}

// valueOf returns the value of a JavaScript expression.
func valueOf[T any](b *browser, expression string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](expression))
}

// wait waits until a JavaScript expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	await.NoError(b.t, func() error {
		if valueOf[bool](b, expression) {
			return nil
		}
		return fmt.Errorf("not yet true: %s; text of the page:\n%s\nerrors in its console: %q", expression, valueOf[string](b, "document.body.innerText"), b.problems)
	})
}

// daemonProcess is a daemon process with its own directory of channels.
type daemonProcess struct {
	t       testing.TB
	shm     localach.Dir
	dir     string
	args    []string
	cmd     *exec.Cmd
	udp     int
	address string // address of the daemon's page
}

// daemonFor starts a daemon that ends with the test.
func daemonFor(t testing.TB, key, name string, args ...string) *daemonProcess {
	t.Helper()
	shm, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	d := &daemonProcess{t: t, shm: localach.Dir(shm), dir: t.TempDir(), udp: freePort()}
	d.address = fmt.Sprintf("127.0.0.1:%d", freePort())
	d.args = append([]string{"run", "--name", name, "--key", key, "--no-discovery", "--transport", "quic",
		"--listen", fmt.Sprintf("127.0.0.1:%d", d.udp), "--control", d.control(), "--state", filepath.Join(d.dir, "state"), "--http", d.address}, args...)
	d.start()
	t.Cleanup(d.stop)
	return d
}

func (d *daemonProcess) control() string { return filepath.Join(d.dir, "control.sock") }

func (d *daemonProcess) start() {
	d.t.Helper()
	d.cmd = exec.Command("achbridge", d.args...)
	d.cmd.Env = append(os.Environ(), "ACHBRIDGE_SHM="+string(d.shm))
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	await.NoError(d.t, func() error {
		_, err := d.status()
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w; the daemon's log:\n%s", err, text)
		}
		return err
	})
}

// stop ends the daemon. It does nothing if the daemon has ended.
func (d *daemonProcess) stop() {
	if d.cmd.ProcessState == nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		_ = d.cmd.Wait()
	}
}

func (d *daemonProcess) status() (s api.StatusReply, err error) {
	_, err = (&app{Host: view.Host{Places: config.Places{Env: os.Getenv}}}).Client(d.control()).Get(context.Background(), "/v1/status", &s)
	return s, err
}

// feedChannels makes channels and puts frames into each, until the test ends or stop is called.
// The first channel gets a frame every period. Each next channel's period is longer by 5 % of period.
func feedChannels(t *testing.T, dir localach.Dir, period time.Duration, names ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var feeders sync.WaitGroup
	for i, name := range names {
		ch, err := dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 64}})
		if errors.Is(err, os.ErrExist) {
			ch, err = dir.Open(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		w := ch.Writer()
		feeders.Go(func() {
			defer ch.Close()
			defer w.Close()
			tick := time.NewTicker(period + period*time.Duration(i)/20)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_, _ = w.Put(make([]byte, 64))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	stop = func() { cancel(); feeders.Wait() }
	t.Cleanup(stop)
	return stop
}

func newKeyFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := trust.NewKey().Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// card returns the JavaScript expression for the text on the card of a mirror.
func card(name string) string {
	return fmt.Sprintf(`(document.querySelector('.grid button[title=%q]')?.innerText ?? "")`, name)
}

// badHost is the name of a host in a mirror request, which may be any text. The page must show badHost unchanged.

const badHost = "<img src=x onerror=alert(1)>"

func TestPageShowsStatusOfDaemon(t *testing.T) {
	need.Long(t)
	b := newBrowser(t)
	key := newKeyFile(t)
	robot := daemonFor(t, key, "krang")
	feedChannels(t, robot.shm, 10*time.Millisecond, "imu", "joints")
	peer := fmt.Sprintf("127.0.0.1:%d", robot.udp)
	pc := daemonFor(t, key, "planner", "--peer", peer, "--mirror", "krang/*", "--mirror", badHost+"/legs")
	origin := "http://" + pc.address + "/"

	do(b, chromedp.Navigate(origin))
	b.wait(card("krang.imu") + `.includes("p99")`)
	b.wait(`document.querySelector("#line").innerText == "live"`)
	b.wait(`document.querySelector("#fleet svg").textContent.includes("krang")`)
	b.wait(`document.querySelector("#events").innerText.includes("link up")`)
	b.wait(`document.querySelector("#trouble").innerText.startsWith("peer_missing: no host ")`)
	if title := valueOf[string](b, "document.title"); !strings.Contains(title, "planner") {
		t.Errorf("title: got %q, want one with the host", title)
	}

	t.Run("ages match status", func(t *testing.T) {
		do(b, chromedp.Click(`.grid button[title="krang.imu"]`))
		cell := `document.querySelector("dialog .ages").rows[%d].cells[%d].innerText`
		await.NoError(t, func() error {
			s, err := pc.status()
			if err != nil {
				t.Fatal(err)
			}
			var mean, p99, total, listed float64
			_, err1 := fmt.Sscanf(valueOf[string](b, fmt.Sprintf(cell, 1, 1)), "%f ms", &mean)
			_, err2 := fmt.Sscanf(valueOf[string](b, fmt.Sprintf(cell, 3, 1)), "%f ms", &p99)
			_, err3 := fmt.Sscanf(valueOf[string](b, fmt.Sprintf(cell, 1, 2)), "%f ms", &total)
			for _, m := range s.Mirrors {
				if m.Name != "krang.imu" || m.Age == nil || m.Age.Window == nil {
					continue
				}
				listed = m.Age.Total.MeanMs
				// the status is up to a second younger than the page
				if errors.Join(err1, err2, err3) == nil && math.Abs(mean-m.Age.Window.MeanMs) < 1+mean/10 && math.Abs(p99-m.Age.Window.P99Ms) < 1+p99/10 && math.Abs(total-listed) < 1+total/5 {
					return nil
				}
				return fmt.Errorf("mean and p99 of krang.imu: the page shows %.2f and %.2f, want %.2f and %.2f as in the status", mean, p99, m.Age.Window.MeanMs, m.Age.Window.P99Ms)
			}
			return errors.New("status has no age of krang.imu")
		})
		b.wait(`document.querySelector("dialog .ledger").innerText.includes("superseded")`)
		b.wait(`/^[a-z_]+: .*krang.imu/.test(document.querySelector("dialog .verdict")?.innerText)`)
		b.wait(`[...document.querySelectorAll("canvas")].some((c) => c.width && c.toDataURL() != Object.assign(document.createElement("canvas"), {width: c.width, height: c.height}).toDataURL())`)
		valueOf[any](b, `document.querySelector("dialog").close()`)
	})

	t.Run("new channels appear", func(t *testing.T) {
		feedChannels(t, robot.shm, 10*time.Millisecond, "hand-left")
		b.wait(card("krang.hand-left") + `.includes("p99")`)
		b.wait(`document.querySelector("#filter").value == "" && document.querySelectorAll(".grid li").length == 4`)
		do(b, chromedp.SendKeys("#filter", "hand"))
		b.wait(`document.querySelectorAll(".grid li").length == 1`)
		valueOf[any](b, `f = document.querySelector("#filter"), f.value = "", f.dispatchEvent(new Event("input"))`)
		b.wait(`document.querySelectorAll(".grid li").length == 4`)
	})

	t.Run("names are not parsed as HTML", func(t *testing.T) {
		b.wait(fmt.Sprintf(`document.querySelector("#mirrors .grid").innerText.includes(%q)`, badHost))
		b.wait(fmt.Sprintf(`document.querySelector("#fleet svg").textContent.includes(%q)`, badHost[:15]))
		if n := valueOf[int](b, `document.querySelectorAll("img").length`); n != 0 {
			t.Errorf("got %d images, want none: a name was parsed as HTML", n)
		}
	})
	b.clean(origin)

	t.Run("page reconnects to restarted daemon", func(t *testing.T) {
		pc.stop()
		b.wait(`document.querySelector("#line").innerText.includes("no word")`)
		pc.start()
		b.wait(`document.querySelector("#line").innerText == "live"`)
		b.wait(card("krang.imu") + `.includes("p99")`)
	})
}

func TestPageContentSecurityPolicy(t *testing.T) {
	d := daemonFor(t, newKeyFile(t), "krang")
	for _, path := range []string{"", "page.js", "page.css", "icon.svg", "nothing"} {
		resp, err := http.Get("http://" + d.address + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := map[bool]int{true: 404, false: 200}[path == "nothing"]; resp.StatusCode != want {
			t.Errorf("/%s: got %s, want %d", path, resp.Status, want)
		}
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") {
			t.Errorf("/%s: got policy %q, want only its own scripts", path, policy)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
			if strings.Contains(string(body), bad) {
				t.Errorf("/%s contains %s", path, bad)
			}
		}
	}
}

// A client without a key may not make the daemon work without limit.
func TestPageDiagnosesFewMirrorsAtOnce(t *testing.T) {
	d := daemonFor(t, newKeyFile(t), "planner", "--mirror", "krang/imu")
	codes := make(chan int)
	for range 6 {
		go func() {
			resp, err := http.Get("http://" + d.address + "/why?of=krang.imu")
			if err != nil {
				t.Error(err)
				codes <- 0
				return
			}
			resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	got := map[int]int{}
	for range 6 {
		got[<-codes]++
	}
	if got[http.StatusOK] != 4 || got[http.StatusServiceUnavailable] != 2 {
		t.Errorf("six requests: got %v by status, want 4 with a diagnosis, 2 with %d", got, http.StatusServiceUnavailable)
	}
}
