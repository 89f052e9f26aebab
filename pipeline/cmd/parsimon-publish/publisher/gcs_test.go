package publisher

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"parsimon/pipeline/cmd/parsimon-publish/servertest"
	"parsimon/pipeline/cmd/parsimon-publish/sources"
)

// A bucket of Google Cloud Storage keeps the promises of publish, and gives its objects back. Its driver has
// its own conditions of writes and its own errors.
func TestGoogleCloudStorage(t *testing.T) {
	const bucket = "tables"
	servertest.GCS(t, bucket)
	lakes := fillAtOnce(t)
	for round := range 3 {
		publishAtOnce(t, lakes, fmt.Sprintf("gs://%s/%d", bucket, round), "none")
	}
	p := publisherTo(t, lakes[0], "gs://"+bucket+"/0")
	p.Tables = few()
	for _, c := range publishAll(t, p, first) {
		if c.Added+c.Removed != 0 {
			t.Errorf("published again: %+v", c)
		}
	}
	from := &sources.Buckets{}
	found, err := from.List(t.Context(), "gs://"+bucket+"/0/slowdowns/data/*/*/*.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 6 || found[0].ETag == "" { // publishers that lose leave copies, which expiry removes
		t.Errorf("objects %+v, want two files of three scenarios, with ETags", found)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := from.Copy(t.Context(), found[0], to); err != nil {
		t.Fatal(err)
	}
	copied, err := os.Stat(to)
	if err != nil || copied.Size() != found[0].Bytes {
		t.Errorf("the copy: %v, want %d bytes", err, found[0].Bytes)
	}
}
