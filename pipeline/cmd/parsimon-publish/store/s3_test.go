package store_test

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/cmd/parsimon-publish/store"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "s3://"+s3test.Bucket+"/company")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A version of a table is an object that only one publisher creates. If two could create it, the rows of one
// would be lost.
func TestOneOfManyCreates(t *testing.T) {
	s3test.Start(t)
	s := open(t)
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			err := s.Create(t.Context(), s.Root+"/one", []byte{byte(i)})
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d of 16 have created the object", made.Load())
	}
}

// isCreation reports whether a request is a conditional write.
func isCreation(r *http.Request) bool { return r.Header.Get("If-None-Match") == "*" }

// S3 answers 409 if another request conflicts with a conditional write, which does not mean that the object
// exists: S3's documentation asks clients to upload again. A publisher that treats it as "exists" waits for a
// version that nobody has made.
func TestConflictIsRepeated(t *testing.T) {
	server := s3test.Start(t)
	s := open(t)
	var conflicts atomic.Int64
	server.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		if isCreation(r) && conflicts.Add(1) <= 3 {
			s3test.Error(w, http.StatusConflict, "ConditionalRequestConflict")
			return s3test.Answered
		}
		return s3test.Pass
	})
	err := s.Create(t.Context(), s.Root+"/one", []byte("content"))
	if err != nil || conflicts.Load() != 4 {
		t.Errorf("%d attempts: %v", conflicts.Load(), err)
	}
	server.SetFault(func(w http.ResponseWriter, r *http.Request) s3test.Outcome {
		s3test.Error(w, http.StatusConflict, "ConditionalRequestConflict")
		return s3test.Answered
	})
	err = s.Create(t.Context(), s.Root+"/two", []byte("content"))
	if err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("conflicts that do not end: %v", err)
	}
}

// If the answer to a creation is lost, the driver repeats the request and is told that the object exists.
// This is the object that was to be created.
func TestLostAnswerIsNoFailure(t *testing.T) {
	server := s3test.Start(t)
	s := open(t)
	var lost atomic.Bool
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) s3test.Outcome {
		if isCreation(r) && !lost.Swap(true) {
			return s3test.Lost
		}
		return s3test.Pass
	})
	err := s.Create(t.Context(), s.Root+"/one", []byte("content"))
	if err != nil || !lost.Load() {
		t.Errorf("lost %v: %v", lost.Load(), err)
	}
	err = s.Create(t.Context(), s.Root+"/one", []byte("other content"))
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("an object with other content: %v", err)
	}
}

// A bucket that does not exist and wrong credentials are errors that name the URL, and never the secret.
func TestErrorsOfS3(t *testing.T) {
	s3test.Start(t)
	missing, err := store.Open(t.Context(), "s3://missing/company")
	if err != nil {
		t.Fatal(err)
	}
	err = missing.Create(t.Context(), missing.Root+"/one", []byte("content"))
	if err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another secret")
	s := open(t)
	_, err = s.Read(s.Root + "/one")
	if err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "another secret") {
		t.Errorf("wrong credentials: %v", err)
	}
}
