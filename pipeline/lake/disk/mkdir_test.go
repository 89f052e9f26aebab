package disk

import (
	"os"
	"testing"
	"time"
)

// A session removes a directory that is empty, such as _tmp, while another session makes a directory in it.
// Otherwise, one of several concurrent runs would sometimes fail, because the directory does not exist.
func TestMkdirAllWhileTheParentIsRemoved(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	r := Root{root}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = r.Remove("all") // fails while it is not empty
				// Without a pause, it may win all of MkdirAll's tries. A session removes a directory once.
				time.Sleep(time.Microsecond)
			}
		}
	}()
	for n := range 200 {
		if err := r.MkdirAll("all/one", 0o755); err != nil {
			t.Fatalf("time %d: %v", n, err)
		}
		if err := r.Remove("all/one"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
}
