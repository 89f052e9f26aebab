package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/lake"
)

const companyURL = "s3://" + s3test.Bucket + "/company"

// killedLake names an environment variable with the directory of a lake, and killedCatalog one with a catalog
// of --catalog. If they are set, the test binary publishes the lake, and the test kills it.
const (
	killedLake    = "PARSIMON_TEST_KILLED_PUBLISH"
	killedCatalog = "PARSIMON_TEST_KILLED_CATALOG"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(killedLake)
	if dir == "" {
		os.Exit(m.Run())
	}
	err := publishIn(context.Background(), dir)
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func publishIn(ctx context.Context, dir string) error {
	l, err := lake.Open(dir, false)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, companyURL)
	if err != nil {
		return err
	}
	p := &Publisher{Lake: l, Store: s, Tables: few(), AtOnce: 4}
	p.Catalog, err = store.OpenCatalog(ctx, s, os.Getenv(killedCatalog))
	if err != nil {
		return err
	}
	_, err = p.Publish(ctx, []lake.ScenarioID{first})
	return err
}

// If several publishers change the same tables of a bucket at once and some of their writes conflict, no row
// is lost or duplicated.
func TestPublishersAtOnceInBucket(t *testing.T) {
	server := s3test.Start(t)
	var writes atomic.Int64
	server.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		if r.Header.Get("If-None-Match") == "*" && writes.Add(1)%5 == 0 {
			s3test.Error(w, http.StatusConflict, "ConditionalRequestConflict")
			return s3test.Answered
		}
		return s3test.Pass
	})
	rounds := 2
	if !testing.Short() {
		rounds = 5
	}
	lakes := fillAtOnce(t)
	for round := range rounds {
		publishAtOnce(t, lakes, fmt.Sprintf("%s/%d", companyURL, round), "none")
	}
}

// If requests fail, answers are lost or bodies are cut, a publisher becomes slower. It does not fail, and the
// tables are the same.
func TestPublishDespiteFaults(t *testing.T) {
	server := s3test.Start(t)
	l := fill(t, t.TempDir(), first, 40)
	p := publisherTo(t, l, companyURL)
	p.Tables = few()
	var requests atomic.Int64
	server.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		n := requests.Add(1)
		switch {
		case n%7 == 0:
			s3test.Error(w, http.StatusServiceUnavailable, "SlowDown")
			return s3test.Answered
		case n%11 == 0 && r.Method == http.MethodPut:
			return s3test.Lost
		}
		return s3test.Pass
	})
	publishAll(t, p, first)
	got := rowsOf(t, p.Catalog, "slowdowns")
	want := map[string]int64{string(first) + "/flow-2": 81}
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	for _, c := range publishAll(t, p, first) {
		if c.Added+c.Removed != 0 {
			t.Errorf("published again: %+v", c)
		}
	}
	if requests.Load() < 50 {
		t.Errorf("only %d requests: were there faults?", requests.Load())
	}
}

// A publisher that is killed at any of its writes leaves each table as it was before or as it should be. A
// scenario that readers find in table scenarios has all its rows. The next publisher continues.
func TestKilledPublishers(t *testing.T) {
	step := int64(3)
	if testing.Short() {
		step = 11
	}
	checkKilled(t, s3test.Start(t), "none", step)
}

// checkKilled kills a publisher at its first write, and then at each write that is step after the one before.
func checkKilled(t *testing.T, server *s3test.Server, catalog string, step int64) {
	t.Helper()
	dir := t.TempDir()
	p := publisherWith(t, fill(t, dir, first, 40), companyURL, catalog)
	p.Tables = few()
	for at := int64(1); ; at += step {
		var writes atomic.Int64
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), killedLake+"="+dir, killedCatalog+"="+catalog)
		c.Stderr = t.Output()
		server.SetFault(func(_ http.ResponseWriter, r *http.Request) s3test.Outcome {
			if r.Method == http.MethodPut && writes.Add(1) == at {
				_ = c.Process.Kill()
				return s3test.Lost
			}
			return s3test.Pass
		})
		err := c.Run()
		server.SetFault(nil)
		if err == nil {
			t.Logf("killed %d times; %d writes in the last call", (at-1)/step, writes.Load())
			break
		}
		for _, name := range []string{"slowdowns", "scenarios"} {
			checkWhole(t, p, name)
		}
	}
	for _, c := range publishAll(t, p, first) {
		if c.Added+c.Removed != 0 {
			t.Errorf("published again: %+v", c)
		}
	}
	checkWhole(t, p, "slowdowns")
	if len(rowsOf(t, p.Catalog, "scenarios")) != 1 {
		t.Error("the scenario is not visible")
	}
}

// A bucket without space refuses objects: versitygw answers 507 then. The error names the object, no table
// has half of a scenario, and the same command continues when there is space again.
func TestFullBucket(t *testing.T) {
	server := s3test.Start(t)
	dir := t.TempDir()
	p := publisherTo(t, fill(t, dir, first, 40), companyURL)
	p.Tables = few()
	publishAll(t, p, first)
	fill(t, dir, second, 40)
	step := int64(3)
	if testing.Short() {
		step = 7
	}
	full := 0
	for room := int64(0); ; room += step {
		var writes atomic.Int64
		server.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
			if r.Method == http.MethodPut && writes.Add(1) > room {
				s3test.Error(w, http.StatusInsufficientStorage, "InsufficientStorage")
				return s3test.Answered
			}
			return s3test.Pass
		})
		_, err := p.Publish(t.Context(), []lake.ScenarioID{first, second})
		server.SetFault(nil)
		for _, published := range p.Tables {
			checkWhole(t, p, published.Name)
		}
		got := rowsOf(t, p.Catalog, "slowdowns")[string(first)+"/flow-2"]
		if got != 81 {
			t.Errorf("%d rows of the scenario that was there before, want 81", got)
		}
		if err == nil {
			break
		}
		full++
		named := strings.Contains(err.Error(), "company/") && strings.Contains(err.Error(), "InsufficientStorage")
		if !named {
			t.Errorf("with room for %d objects: %v", room, err)
		}
	}
	t.Logf("full %d times", full)
	for _, c := range publishAll(t, p, first, second) {
		if c.Added+c.Removed != 0 {
			t.Errorf("published again: %+v", c)
		}
	}
	if full == 0 || len(rowsOf(t, p.Catalog, "scenarios")) != 2 {
		t.Errorf("full %d times; scenarios %v", full, rowsOf(t, p.Catalog, "scenarios"))
	}
}

// S3 refuses requests whose time differs from its own by more than 15 minutes. The driver learns the time of
// the server from the answer, and signs for that time. If the server refuses this too, the error says that a
// clock is wrong.
func TestClockSkew(t *testing.T) {
	server := s3test.Start(t)
	p := publisherTo(t, fill(t, t.TempDir(), first, 40), companyURL)
	p.Tables = few()
	var requests atomic.Int64
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) s3test.Outcome {
		requests.Add(1)
		s3test.Error(w, http.StatusForbidden, "RequestTimeTooSkewed")
		return s3test.Answered
	})
	_, err := p.Publish(t.Context(), []lake.ScenarioID{first})
	if err == nil || !strings.Contains(err.Error(), "the clocks of this machine and of the server differ") {
		t.Errorf("the clock is wrong: %v", err)
	}
	if requests.Load() > 3 {
		t.Errorf("%d requests before the error", requests.Load())
	}
	server.SetFault(nil)
	for _, published := range p.Tables {
		_, err := p.Catalog.LoadTable(t.Context(), store.Identify(published.Name))
		if !errors.Is(err, catalog.ErrNoSuchTable) {
			t.Errorf("table %s: %v", published.Name, err)
		}
	}
	for _, ahead := range []time.Duration{20 * time.Minute, -20 * time.Minute} {
		server.SetClock(ahead)
		to := publisherTo(t, p.Lake, companyURL+"/"+ahead.String())
		to.Tables = few()
		publishAll(t, to, first)
		got := rowsOf(t, to.Catalog, "slowdowns")[string(first)+"/flow-2"]
		if got != 81 {
			t.Errorf("clock %v ahead: %d rows, want 81", ahead, got)
		}
	}
}

// checkWhole reports an error if a table has some of the rows of a scenario, but not all.
func checkWhole(t *testing.T, p *Publisher, name string) {
	t.Helper()
	_, err := p.Catalog.LoadTable(t.Context(), store.Identify(name))
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return
	}
	rows := rowsOf(t, p.Catalog, name)
	for of, n := range rows {
		if n != 81 {
			t.Errorf("%s has %d rows of %s, want 81", name, n, of)
		}
	}
	if name != "scenarios" {
		return
	}
	for _, published := range few() {
		has := rowsOf(t, p.Catalog, published.Name)
		for scenario := range rows {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(has)), func(key string) bool {
				return strings.HasPrefix(key, scenario)
			}) {
				t.Errorf("%s is visible, and table %s has no rows of it", scenario, published.Name)
			}
		}
	}
}
