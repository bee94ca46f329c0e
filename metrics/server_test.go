package metrics_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestProbesFollowTheirChecksAndFiguresAreShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_test_things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	var full atomic.Bool
	s, err := metrics.Listen("127.0.0.1:0", metrics.Options{
		Registry: registry,
		Healthy:  func() error { return nil },
		Ready: func() error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base := "http://" + s.Addr().String()
	if code, body := get(t, base+"/readyz"); code != 200 || body != "ok\n" {
		t.Fatalf("readyz: %d %q", code, body)
	}
	full.Store(true)
	if code, body := get(t, base+"/readyz"); code != 503 || !strings.Contains(body, "disk is full") {
		t.Fatalf("readyz of a full disk: %d %q", code, body)
	}
	if code, _ := get(t, base+"/healthz"); code != 200 {
		t.Fatalf("healthz: %d", code)
	}
	if code, body := get(t, base+"/metrics"); code != 200 || !strings.Contains(body, "sluice_test_things_total 3") {
		t.Fatalf("metrics: %d %q", code, body)
	}
	if code, _ := get(t, base+"/debug/pprof/goroutine?debug=1"); code != 200 {
		t.Fatalf("pprof: %d", code)
	}
}
