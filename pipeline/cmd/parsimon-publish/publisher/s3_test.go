package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go/catalog"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/lake"
)

const companyURL = "s3://" + s3test.Bucket + "/company"

// killedLake names an environment variable with the directory of a lake. If it is set, the test binary
// publishes the lake, and the test kills it.
const killedLake = "PARSIMON_TEST_KILLED_PUBLISH"

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
	p := &Publisher{Lake: l, Store: s, Catalog: store.NewPaths(s), Tables: few(), AtOnce: 4}
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
	for round := range rounds {
		publishAtOnce(t, fmt.Sprintf("%s/%d", companyURL, round))
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
	server := s3test.Start(t)
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	p := publisherTo(t, l, companyURL)
	p.Tables = few()
	step := int64(3)
	if testing.Short() {
		step = 11
	}
	for at := int64(1); ; at += step {
		var writes atomic.Int64
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), killedLake+"="+dir)
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
			t.Logf("%d writes in all", writes.Load())
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

// checkWhole returns an error if a table has some of the rows of the first scenario, but not all.
func checkWhole(t *testing.T, p *Publisher, name string) {
	t.Helper()
	_, err := p.Catalog.LoadTable(t.Context(), store.Identify(name))
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return
	}
	for of, n := range rowsOf(t, p.Catalog, name) {
		if n != 81 {
			t.Errorf("%s has %d rows of %s, want 81", name, n, of)
		}
	}
	if name != "scenarios" || len(rowsOf(t, p.Catalog, name)) == 0 {
		return
	}
	for _, published := range few() {
		if len(rowsOf(t, p.Catalog, published.Name)) == 0 {
			t.Errorf("the scenario is visible, and table %s has no rows of it", published.Name)
		}
	}
}
