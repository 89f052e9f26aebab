package sources

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/workloads"
)

const root = "s3://" + s3test.Bucket + "/"

// logs writes objects of two days, and objects that are not logs.
func logs(t *testing.T) *s3test.Server {
	t.Helper()
	s := s3test.Start(t)
	for _, key := range []string{
		"a/2026/01/30/x.log", "a/2026/01/31/x.log", "b/2026/01/31/y.log",
		"a/2026/01/31/_temporary", "a/2026/01/31/.hidden", "other/z.log",
	} {
		s.Write(t, key, "content of "+key+"\n")
	}
	return s
}

func keysOf(all []workloads.Object) string {
	var keys []string
	for _, o := range all {
		keys = append(keys, strings.TrimPrefix(o.URL, root))
	}
	return strings.Join(keys, " ")
}

// A night is a pattern of objects. If an object is missed, flows are missing. An object too many adds flows
// of another day.
func TestList(t *testing.T) {
	logs(t)
	b := &Buckets{}
	defer func() { _ = b.Close() }()
	for from, want := range map[string]string{
		"*/2026/01/31/*.log":  "a/2026/01/31/x.log b/2026/01/31/y.log",
		"*/2026/01/31":        "a/2026/01/31/x.log b/2026/01/31/y.log",
		"a":                   "a/2026/01/30/x.log a/2026/01/31/x.log",
		"a/2026/01/31/x.log":  "a/2026/01/31/x.log",
		"?/2026/01/3[01]/x.*": "a/2026/01/30/x.log a/2026/01/31/x.log",
		"none":                "error: matches no object",
		"a/../b":              "error: want s3://NAME/KEY",
	} {
		all, err := b.List(t.Context(), root+from)
		got := keysOf(all)
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), root+from+": ")
			got = "error: " + why
		}
		if got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

// The listing and the copy agree about size and ETag. Otherwise each object would count as changed.
func TestCopy(t *testing.T) {
	s := logs(t)
	b := &Buckets{}
	defer func() { _ = b.Close() }()
	to := filepath.Join(t.TempDir(), "copy")
	for _, from := range []string{"a/2026/01/31/x.log", "a/2026/01/3[1]"} {
		all, err := b.List(t.Context(), root+from)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Copy(t.Context(), all[0], to); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(to)
		want := "content of a/2026/01/31/x.log\n"
		if err != nil || string(content) != want || all[0].Bytes != int64(len(content)) {
			t.Errorf("%s: %q, %+v, %v", from, content, all[0], err)
		}
		s.Write(t, "a/2026/01/31/x.log", "other\n")
		err = b.Copy(t.Context(), all[0], to+"-2")
		if err == nil || !strings.Contains(err.Error(), all[0].URL+": the object has changed since") {
			t.Errorf("a changed object: %v", err)
		}
		s.Write(t, "a/2026/01/31/x.log", string(content))
	}
	checkNoCopy(t, to+"-2")
}

func checkNoCopy(t *testing.T, path string) {
	t.Helper()
	_, err := os.Stat(path)
	if !os.IsNotExist(err) {
		t.Errorf("%s: a failed copy is left: %v", path, err)
	}
}

// Services answer some requests with 503, and connections are lost. None of these may end a night. Drivers
// repeat requests after all of these faults except a cut body.
func TestFaultsAreRepeated(t *testing.T) {
	s := logs(t)
	b := &Buckets{}
	defer func() { _ = b.Close() }()
	var requests atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		n := requests.Add(1)
		switch {
		case r.Method == http.MethodGet && n%3 == 1:
			s3test.Error(w, http.StatusServiceUnavailable, "SlowDown")
			return s3test.Answered
		case r.Method == http.MethodGet && n%3 == 2:
			s3test.Cut(w, 5)
		}
		return s3test.Pass
	})
	all, err := b.List(t.Context(), root+"*/2026/01/31")
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := b.Copy(t.Context(), all[1], to); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(to)
	if err != nil || string(content) != "content of b/2026/01/31/y.log\n" {
		t.Errorf("%q, %v", content, err)
	}
	s.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		if r.Method == http.MethodGet {
			s3test.Cut(w, 5)
		}
		return s3test.Pass
	})
	err = b.Copy(t.Context(), all[0], to+"-2")
	if err == nil || !strings.Contains(err.Error(), all[0].URL) {
		t.Errorf("bodies that are always cut: %v", err)
	}
	checkNoCopy(t, to+"-2")
}

// Wrong credentials are an error at once, and the error does not contain the secret.
func TestWrongCredentials(t *testing.T) {
	s := logs(t)
	var requests atomic.Int64
	s.SetFault(func(http.ResponseWriter, *http.Request) s3test.Outcome {
		requests.Add(1)
		return s3test.Pass
	})
	const secret = "not the secret"
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	b := &Buckets{}
	defer func() { _ = b.Close() }()
	_, err := b.List(t.Context(), root+"a/2026")
	if err == nil || strings.Contains(err.Error(), secret) || requests.Load() > 3 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
}

// S3 refuses requests whose time differs from its own by more than 15 minutes. A wrong clock must not end a
// night if the driver learns the right time, even if the first request has an answer without a body.
func TestClockSkew(t *testing.T) {
	s := logs(t)
	s.SetClock(20 * time.Minute)
	for _, from := range []string{"a/2026/01/31/x.log", "*/2026/01/31"} {
		b := &Buckets{}
		all, err := b.List(t.Context(), root+from)
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		to := filepath.Join(t.TempDir(), "copy")
		if err := b.Copy(t.Context(), all[0], to); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
