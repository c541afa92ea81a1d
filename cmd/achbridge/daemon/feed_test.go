package daemon

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
)

// testFeed returns the feed of a host with one mirror and without events.
func testFeed() *feed {
	return &feed{
		overview: &overview{sample: func() api.StatusReply {
			s := api.StatusReply{Report: watched(), Problems: []diagnose.Problem{{Finding: diagnose.Finding{Cause: status.CauseTypeMismatch, Text: "secret"}}}}
			s.Mirrors[0].TypeHash, s.Mirrors[0].Mismatch = "secret", &status.Mismatch{Why: "secret"}
			s.Locals = append(s.Locals, status.Local{Channel: "goal", Mismatch: &status.Mismatch{Why: "secret"}})
			return s
		}},
		past: map[string]*ageTrack{}, viewers: map[*viewer]bool{},
	}
}

var aSecond = []status.AgeLately{
	{Name: "krang.imu", State: "live", MeanMs: 5.4321, PeakMs: 123.4, Known: true},
	{Name: "krang.arm", State: status.MirrorWaiting},
}

func TestFeedSendsHistoryThenEachSecond(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			f := testFeed()
			f.second(aSecond)
			f.second(aSecond)
			f.happened([]status.Event{{Seq: 1, Kind: status.EventLinkUp, Host: "krang", Text: "up"}})
			server := httptest.NewServer(f)
			defer server.CloseClientConnections()
			r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
			r.Header.Set("Accept-Encoding", encoding) // with this header set, the transport does not decompress the body
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := io.Reader(resp.Body)
			if encoding == "gzip" {
				if body, err = gzip.NewReader(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			lines := bufio.NewReader(body)
			next := func() (event, data string) {
				for data == "" {
					line, err := lines.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					event = cmp.Or(after(line, "event: "), event)
					data = after(line, "data: ")
				}
				return event, data
			}
			for i, want := range []string{
				`ages {"krang.arm":{"mean_ms":[null,null],"peak_ms":[null,null],"state":"ww"},"krang.imu":{"mean_ms":[5.43,5.43],"peak_ms":[123,123],"state":"ll"}}`,
				`events [{"seq":1,"time":"0001-01-01T00:00:00Z","kind":"link_up","host":"krang","text":"up"}]`,
				`status `,
				`ages {"krang.arm":{"mean_ms":[null],"peak_ms":[null],"state":"w"},"krang.imu":{"mean_ms":[5.43],"peak_ms":[123],"state":"l"}}`,
				`status `,
				`events [{"seq":2,`,
			} {
				if i == 3 { // the stream has begun
					f.second(aSecond)
					f.happened([]status.Event{{Seq: 2}})
				}
				event, data := next()
				if got := event + " " + data; !strings.HasPrefix(got, want) {
					t.Errorf("message %d: got %.200s, want %s", i, got, want)
				}
				if event == "status" && (!strings.Contains(data, `"mirrored_as":"krang.imu"`) || strings.Contains(data, "secret")) {
					t.Errorf("status: got %s", data)
				}
			}
		})
	}
}

// after returns the text of line after the prefix begin, or "" if line has another prefix.
func after(line, begin string) string {
	rest, ok := strings.CutPrefix(line, begin)
	if !ok {
		return ""
	}
	return strings.TrimSpace(rest)
}

func TestFeedDropsSlowBrowsers(t *testing.T) {
	f := testFeed()
	slow, ok := f.enter(viewer{})
	if !ok {
		t.Fatal("the first browser was refused")
	}
	quick, _ := f.enter(viewer{isCompressed: true})
	for range viewerLag + 3 {
		f.second(aSecond)
		for len(quick.chunks) > 0 {
			<-quick.chunks
		}
	}
	for range slow.chunks { // the loop ends only if the channel was closed
	}
	if len(f.viewers) != 1 || !f.viewers[quick] {
		t.Errorf("got %d browsers, want only the quick one", len(f.viewers))
	}
	for range mostBrowsers - 1 {
		if _, ok := f.enter(viewer{}); !ok {
			t.Fatal("a browser was refused below the limit")
		}
	}
	answer := httptest.NewRecorder()
	f.ServeHTTP(answer, httptest.NewRequest("GET", "/events", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("one browser too many: got %d, want %d", answer.Code, http.StatusServiceUnavailable)
	}
	f.leave(quick)
	if _, ok := f.enter(viewer{}); !ok {
		t.Error("a browser was refused after another had left")
	}
}

func TestFeedHistoryIsLimited(t *testing.T) {
	f := testFeed()
	many := make([]status.AgeLately, feedTracks+500)
	for i := range many {
		many[i] = status.AgeLately{Name: fmt.Sprint(i), State: "live", Known: true}
	}
	for range feedPast + 5 {
		f.second(many)
	}
	if len(f.past) != feedTracks {
		t.Errorf("got %d mirrors, want %d", len(f.past), feedTracks)
	}
	for name, a := range f.past {
		if len(a.MeanMs) != feedPast || len(a.PeakMs) != feedPast || len(a.State) != feedPast {
			t.Fatalf("%s: got %d, %d, %d seconds, want %d", name, len(a.MeanMs), len(a.PeakMs), len(a.State), feedPast)
		}
	}
	f.second(many[:1])
	if len(f.past) > 1 {
		t.Errorf("got the history of %d mirrors, want only that of the existing one", len(f.past))
	}
	f.happened(make([]status.Event, feedKept+9))
	if len(f.recentEvents) != feedKept {
		t.Errorf("got %d events, want %d", len(f.recentEvents), feedKept)
	}
}

func TestFeedReadsAllEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, asked := testFeed(), []uint64{}
		f.events = func(ctx context.Context, after uint64) (status.EventList, error) {
			asked = append(asked, after)
			if after < 3 {
				return status.EventList{Events: []status.Event{{Seq: after + 1}}}, nil
			}
			<-ctx.Done()
			return status.EventList{Events: []status.Event{}}, nil
		}
		f.lately = func() []status.AgeLately { return aSecond }
		ctx, cancel := context.WithCancel(t.Context())
		go f.run(ctx)
		time.Sleep(3500 * time.Millisecond)
		cancel()
		synctest.Wait()
		if len(f.recentEvents) != 3 || len(f.past["krang.imu"].MeanMs) != 3 {
			t.Errorf("got %d events and %d seconds, want 3 of each; asked for those after %v", len(f.recentEvents), len(f.past["krang.imu"].MeanMs), asked)
		}
	})
}

func TestStatusSampleIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			takes   time.Duration
			samples int // samples in ten seconds, with four requests each second
		}{{time.Millisecond, 10}, {100 * time.Millisecond, 2}} {
			samples := 0
			o := &overview{sample: func() api.StatusReply { samples++; time.Sleep(c.takes); return api.StatusReply{} }}
			for range 10 {
				begin := time.Now()
				for range 4 {
					o.now()
				}
				time.Sleep(time.Second - time.Since(begin))
			}
			if samples != c.samples {
				t.Errorf("a status that takes %v: got %d samples in ten seconds, want %d", c.takes, samples, c.samples)
			}
			o.fresh()
			if _, made := o.now(); samples != c.samples+1 || time.Since(made) > time.Millisecond {
				t.Errorf("fresh, then now: got %d samples, want 1", samples-c.samples)
			}
		}
	})
}

func TestReadinessIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples, state := 0, "live"
		h := ready(&overview{good: readyGood, sample: func() api.StatusReply {
			samples++
			return api.StatusReply{Report: status.Report{Mirrors: []status.Mirror{{Name: "imu", State: status.MirrorState(state)}}}}
		}})
		ask := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			return w.Code
		}
		for range 1000 {
			if code := ask(); code != http.StatusOK {
				t.Fatalf("got %d, want 200", code)
			}
		}
		if samples != 1 {
			t.Errorf("1000 requests at once: got %d samples, want 1", samples)
		}
		state = "stale"
		time.Sleep(2 * readyGood)
		if code := ask(); code != http.StatusServiceUnavailable {
			t.Errorf("stale mirror: got %d, want 503", code)
		}
	})
}

func TestAgesAreRoundedToThreeDigits(t *testing.T) {
	text, err := json.Marshal(milliList{0.0123456, 1.23456, 12.3456, 123.456, 12345.6})
	if want := "[0.012,1.23,12.3,123,12346]"; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
