// Package s3test runs a server of the S3 protocol on this machine for tests, with faults on request.
//
//	code under test ─► Server.Fault: 503, a cut body, … ─► versitygw ─► one directory a bucket
package s3test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // s3

	"parsimon/pipeline/cmd/parsimon-publish/servertest"
)

// Program names the environment variable with the path of versitygw. Tests are skipped if it is not set.
const Program = "PARSIMON_S3_SERVER"

// Bucket is the bucket that every server has.
const Bucket = "tables"

// The credentials and the region of every server.
const (
	key    = "parsimon"
	secret = "secret of a test"
	region = "us-east-1"
)

// A Server is a server of the S3 protocol.
type Server struct {
	URL string // of the server

	mu    sync.Mutex
	fault Fault
	clock time.Duration // how far it is ahead of that of this machine
}

// A Fault is called for each request, and says what happens to it.
type Fault func(w http.ResponseWriter, r *http.Request) Outcome

// An Outcome is what happens to a request.
type Outcome int

// The outcomes.
const (
	Pass     Outcome = iota // the server answers it
	Answered                // the fault has answered it
	Lost                    // the server does what it asks, and the answer is lost
)

// Start starts a server, and sets the environment variables with which AWS clients find it. The test ends it.
func Start(t testing.TB) *Server {
	t.Helper()
	program := os.Getenv(Program)
	if program == "" {
		t.Skipf("%s is not set: make unit-publish sets it", Program)
	}
	s := &Server{}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_REGION", region)
	address := servertest.FreeAddress(t)
	c := exec.Command(program, "--quiet", "--port", address, "posix", dir)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+key, "ROOT_SECRET_KEY="+secret)
	servertest.Start(t, c, address)
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host // the signature of the request covers it
		},
		ModifyResponse: func(r *http.Response) error {
			_, ahead := s.current()
			r.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault, ahead := s.current()
		outcome := Pass
		if fault != nil {
			outcome = fault(w, r)
		}
		if outcome == Pass && ahead != 0 {
			outcome = checkTime(w, r, ahead)
		}
		switch outcome {
		case Pass:
			to.ServeHTTP(w, r)
		case Lost:
			to.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(front.Close)
	s.URL = front.URL
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	return s
}

// SetFault sets the fault of all later requests; nil: none.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// SetClock sets the clock of the server ahead of that of this machine. The server then refuses requests that
// are signed for another time, as S3 does.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = ahead
}

func (s *Server) current() (fault Fault, ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault, s.clock
}

// maxSkew is the difference between the time of a request and that of the server from which on S3 refuses it.
const maxSkew = 15 * time.Minute

// signedTime is the layout of the time in a signed request.
const signedTime = "20060102T150405Z"

// checkTime refuses a request that is signed for another time than that of a server whose clock is ahead. It
// signs any other request again, because the clock of versitygw is that of this machine.
func checkTime(w http.ResponseWriter, r *http.Request, ahead time.Duration) Outcome {
	now := time.Now()
	signed, err := time.Parse(signedTime, r.Header.Get("X-Amz-Date"))
	if err != nil || now.Add(ahead).Sub(signed).Abs() > maxSkew {
		w.Header().Set("Date", now.Add(ahead).UTC().Format(http.TimeFormat))
		Error(w, http.StatusForbidden, "RequestTimeTooSkewed")
		return Answered
	}
	r.URL.Host = r.Host
	as := aws.Credentials{AccessKeyID: key, SecretAccessKey: secret}
	content := r.Header.Get("X-Amz-Content-Sha256")
	err = v4.NewSigner().SignHTTP(r.Context(), as, r, content, "s3", region, now, func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true // as S3 wants it
	})
	if err != nil {
		Error(w, http.StatusInternalServerError, "InternalError")
		return Answered
	}
	return Pass
}

// Error answers a request with an error of S3.
func Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>a fault of a test</Message></Error>", code)
}

// Cut answers a request with a part of a body, and closes the connection.
func Cut(w http.ResponseWriter, bytes int) {
	w.Header().Set("Content-Length", fmt.Sprint(2*bytes))
	_, _ = w.Write(make([]byte, bytes))
	panic(http.ErrAbortHandler)
}

// Write writes an object.
func (s *Server) Write(t *testing.T, name, content string) {
	t.Helper()
	at := "s3://" + Bucket + "?use_path_style=true&endpoint=" + url.QueryEscape(s.URL)
	bucket, err := blob.OpenBucket(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	err = bucket.WriteAll(t.Context(), name, []byte(content), nil)
	if err := errors.Join(err, bucket.Close()); err != nil {
		t.Fatal(err)
	}
}
