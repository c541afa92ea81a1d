package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"achbridge/testnet/need"
)

// TestPageFitsDesktopAndPhone checks the page with 1, 30 and 300 channels, on a desktop and on a phone.
// Some of the channels have problems. With ACHBRIDGE_SHOTS=DIR it saves screenshots in DIR,
// and runs longer so that they show some history.
func TestPageFitsDesktopAndPhone(t *testing.T) {
	need.Long(t)
	dir := os.Getenv("ACHBRIDGE_SHOTS")
	b := newBrowser(t)
	for _, c := range []struct {
		channels int
		hosts    []string
		mirrors  []string
		period   time.Duration
	}{
		{1, []string{"krang"}, []string{"krang/*"}, 10 * time.Millisecond},
		{30, []string{"krang", "atlas", "dock"}, []string{"krang/arm*,budget=12ms", "krang/wheel*,deadline=150ms", "krang/*", "atlas/*", "dock/*", "mule/goal"}, 25 * time.Millisecond},
		{300, []string{"krang", "atlas", "dock", "mule", "hubo"}, []string{"krang/arm*,budget=80ms", "krang/camera*,deadline=1s", "*/*,budget=1s"}, 150 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.channels), func(t *testing.T) {
			b.t = t
			key := newKeyFile(t)
			args := []string{}
			for _, m := range c.mirrors {
				args = append(args, "--mirror", m)
			}
			pc := daemonFor(t, key, "planner", args...)
			feedChannels(t, pc.shm, 50*time.Millisecond, "goal", "plan")
			var halt []func()
			for h, host := range c.hosts {
				d := daemonFor(t, key, host, "--mirror", "planner/*", "--peer", fmt.Sprintf("127.0.0.1:%d", pc.udp))
				kinds := []string{"imu", "arm-left", "leg", "camera", "wheel"}
				for i := h; i < c.channels; i += len(c.hosts) {
					name := fmt.Sprintf("%s-%02d", kinds[i%len(kinds)], i)
					halt = append(halt, feedChannels(t, d.shm, c.period+time.Duration(i%7)*c.period/3, name))
				}
			}
			past := func(long time.Duration) {
				if dir != "" {
					time.Sleep(long)
				}
			}
			past(30 * time.Second)
			for i := 3; i < len(halt); i += 17 {
				halt[i]()
			}
			past(15 * time.Second)
			schemes := []string{"light"}
			if dir != "" {
				schemes = append(schemes, "dark")
			}
			for _, scheme := range schemes {
				call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				for _, size := range []struct {
					name          string
					width, height int64
					dense         float64
				}{{"desktop", 1280, 900, 1}, {"phone", 390, 844, 2}, {"small", 360, 740, 2}} {
					do(b, chromedp.EmulateViewport(size.width, size.height, chromedp.EmulateScale(size.dense)))
					do(b, chromedp.Navigate("http://"+pc.address+"/"))
					b.wait(fmt.Sprintf(`document.querySelectorAll(".grid button").length >= %d`, max(1, c.channels*4/5)))
					past(3 * time.Second) // until the rates are known
					save := func(what string) {
						if wide := valueOf[int](b, `document.scrollingElement.scrollWidth`); wide > int(size.width) {
							t.Errorf("on %s%s: got a page of %d pixels width, want at most %d", size.name, what, wide, size.width)
						}
						if bad := valueOf[string](b, pageSnapshotJS); bad != "" && what != "-detail" {
							t.Errorf("on %s%s: %s", size.name, what, bad)
						}
						if dir == "" {
							return
						}
						path := filepath.Join(dir, fmt.Sprintf("%03d-%s-%s%s.png", c.channels, size.name, scheme, what))
						if err := os.WriteFile(path, do(b, chromedp.CaptureScreenshot()), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					save("")
					valueOf[any](b, `scrollTo(0, document.querySelector("#mirrors").offsetTop - 50)`)
					past(time.Second)
					save("-channels")
					valueOf[any](b, `document.querySelector(".grid button").click()`)
					b.wait(`document.querySelector("dialog .ledger").innerText.includes("superseded")`)
					past(time.Second)
					save("-detail")
				}
			}
			b.clean("http://" + pc.address + "/")
			do(b, chromedp.Navigate("about:blank")) // before the daemon ends
			b.requestedURLs, b.problems = nil, nil
		})
	}
}
