package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/service"
)

// TestFollowRequestsLeaveConnectionsForStatus starts as many following requests as there are connections.
// At most mostWaiting of them may wait.
func TestFollowRequestsLeaveConnectionsForStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		routes := (&control{why: func(ctx context.Context, _ url.Values) (any, error) {
			<-ctx.Done()
			return api.WhyReport{}, ctx.Err()
		}, status: func() api.StatusReply { return api.StatusReply{} }}).routes()
		ask := func(method, path string) int {
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("{}")))
			return w.Code
		}
		var followers sync.WaitGroup
		for range service.MostConns {
			followers.Go(func() { ask("GET", "/v1/why?of=imu") })
		}
		synctest.Wait()
		if code := ask("GET", "/v1/why?of=imu"); code != http.StatusServiceUnavailable {
			t.Errorf("one more follower: got %d, want 503", code)
		}
		if code := ask("GET", "/v1/status"); code != http.StatusOK {
			t.Errorf("status: got %d, want 200", code)
		}
		cancel()
		followers.Wait()
	})
}
