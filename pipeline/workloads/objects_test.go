package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parsimon/pipeline/scenario"
	"parsimon/schema"
)

// A bucket is an ObjectStore whose objects are the files of a directory.
type bucket struct {
	dir    string
	broken string // URL of an object whose copy fails halfway

	mu     sync.Mutex
	copied []string // names, in the order in which they were asked for
	most   int64    // largest number of bytes of copies that existed at once
}

const bucketURL = "s3://logs/"

func (b *bucket) url(name string) string { return bucketURL + name }

// List implements ObjectStore. The URL is that of an object, or the prefix of all.
func (b *bucket) List(_ context.Context, url string) (all []Object, err error) {
	paths, err := filepath.Glob(filepath.Join(b.dir, strings.TrimPrefix(url, bucketURL)+"*"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: matches no object", url))
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		tag := scenario.BytesDigest(fmt.Append(content, info.ModTime()))
		all = append(all, Object{URL: b.url(filepath.Base(path)), Bytes: int64(len(content)), ETag: tag})
	}
	return all, nil
}

// Copy implements ObjectStore.
func (b *bucket) Copy(_ context.Context, o Object, to string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := strings.TrimPrefix(o.URL, bucketURL)
	b.copied = append(b.copied, name)
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return err
	}
	if o.URL == b.broken {
		return errors.Join(errors.New("connection reset"), os.WriteFile(to, content[:len(content)/2], 0o644))
	}
	err = os.WriteFile(to, content, 0o644)
	if err != nil {
		return err
	}
	total := int64(0)
	copies, err := os.ReadDir(filepath.Dir(to))
	for _, c := range copies {
		info, err := c.Info()
		if err == nil { // else it was removed meanwhile
			total += info.Size()
		}
	}
	b.most = max(b.most, total)
	return err
}

// take returns the names of the objects that were copied since the last call, sorted.
func (b *bucket) take() []string {
	taken := slices.Sorted(slices.Values(b.copied))
	b.copied = nil
	return taken
}

// fromBucket returns the trace of the objects that a URL names.
func (d traceDir) fromBucket(b *bucket, url string) Trace {
	tr := d.trace()
	tr.Objects = []string{url}
	tr.Store = b
	return tr
}

// newBucket returns a bucket with the logs of a number of days.
func newBucket(t *testing.T, days int) (traceDir, *bucket) {
	t.Helper()
	d := newTrace(t, days)
	b := &bucket{dir: d.path("bucket")}
	err := os.Mkdir(b.dir, 0o755)
	for day := range days {
		name := fmt.Sprintf("day%d.log", day)
		err = errors.Join(err, os.Rename(d.path(name), filepath.Join(b.dir, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, b
}

func (d traceDir) ingestObjects(t *testing.T, b *bucket) *Report {
	t.Helper()
	r, err := Ingest(t.Context(), d.fromBucket(b, bucketURL), d.settings())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// If all objects of a night were copied before the first is read, a long night would fill the disk. Objects
// and files with the same content yield the same rows.
func TestObjectsNeedBoundedDisk(t *testing.T) {
	const days = 4
	d, b := newBucket(t, days)
	size := logBytes(t, b, "day0.log")
	settings := d.settings()
	settings.SpoolBytes = 2*size + size/2
	got, err := Ingest(t.Context(), d.fromBucket(b, bucketURL), settings)
	if err != nil {
		t.Fatal(err)
	}
	if b.most > settings.SpoolBytes || b.most < size {
		t.Errorf("copies of %d bytes existed at once, the limit is %d", b.most, settings.SpoolBytes)
	}
	n := len(b.take())
	if n != days || got.NewFiles != days {
		t.Errorf("%d objects were copied, report %+v", n, got)
	}
	_, listed := d.open(t)
	files := newTrace(t, days)
	want := files.ingest(t, 0, 1, 2, 3)
	compareReports(t, got, want)
	_, fromFiles := files.open(t)
	for _, table := range []schema.Table{schema.Flows, schema.LinkLoads} {
		if !slices.Equal(digests(listed, table), digests(fromFiles, table)) {
			t.Errorf("table %s differs from that of files", table.Name)
		}
	}
	settings.SpoolBytes = size / 2 // each object is larger
	settings.Lake = d.path("second")
	b.most = 0
	_, err = Ingest(t.Context(), d.fromBucket(b, bucketURL), settings)
	if err != nil || b.most > size+1 {
		t.Errorf("copies of %d bytes existed at once, want one object: %v", b.most, err)
	}
}

// logBytes returns the size of an object.
func logBytes(t *testing.T, b *bucket, name string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// If a bucket is ingested every night, only new objects are copied. The lake stores URL, size and ETag of the
// objects, for users and for the next night.
func TestKnownObjectsAreNotCopied(t *testing.T) {
	d, b := newBucket(t, 2)
	d.ingestObjects(t, b)
	b.take()
	r := d.ingestObjects(t, b)
	again := b.take()
	if len(again) != 0 || r.KnownFiles != 2 || r.NewFiles != 0 {
		t.Errorf("copied again: %v, report %+v", again, r)
	}
	content, err := os.ReadFile(d.path("bucket/day1.log"))
	if err != nil {
		t.Fatal(err)
	}
	later := strings.ReplaceAll(string(content), " 17699", " 17700")
	d.write(t, "bucket/day2.log", later)
	r = d.ingestObjects(t, b)
	again = b.take()
	if !slices.Equal(again, []string{"day2.log"}) || r.KnownFiles != 2 || r.NewFiles != 1 {
		t.Errorf("copied %v, report %+v", again, r)
	}
	l, _ := d.open(t)
	listed, err := b.List(t.Context(), b.url("day2.log"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask(t, l, "SELECT file || ' ' || file_bytes || ' ' || etag FROM workloads WHERE source = 3")
	want := fmt.Sprintf("%s %d %s", listed[0].URL, listed[0].Bytes, listed[0].ETag)
	if err != nil || got != want {
		t.Errorf("workloads has %q, want %q: %v", got, want, err)
	}
}

// An object with the content of a source, such as a log that was uploaded twice under different keys, adds no
// rows. If it were not remembered, it would be copied again every night.
func TestCopiesOfObjectsAreRemembered(t *testing.T) {
	d, b := newBucket(t, 2)
	content, err := os.ReadFile(d.path("bucket/day1.log"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "bucket/twin-of-new.log", string(content))
	flows := d.ingestObjects(t, b).Flows
	d.write(t, "bucket/twin-of-old.log", string(content))
	for night, want := range [][]string{{"twin-of-old.log"}, nil} {
		b.take()
		r := d.ingestObjects(t, b)
		copied := b.take()
		if !slices.Equal(copied, want) || r.Flows != flows || r.HeldFiles != 2 {
			t.Errorf("night %d: copied %v, want %v; report %+v", night, copied, want, r)
		}
	}
}

// If an object was replaced, its rows count in addition to those of its earlier content, so there is a
// warning. If it was rewritten with the same content, its new ETag is known from then on.
func TestChangedObjectsAreNamed(t *testing.T) {
	d, b := newBucket(t, 2)
	d.ingestObjects(t, b)
	b.take()
	for _, name := range []string{"day0.log", "day1.log"} {
		path := d.path("bucket/" + name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "day1.log" {
			const row = "2 1 eni-0 10.0.0.1 10.0.0.2 7 443 6 10 99 1769904200 1769904201 ACCEPT OK\n"
			content = append(content, row...)
		}
		err = os.Remove(path)
		if err != nil {
			t.Fatal(err)
		}
		d.write(t, "bucket/"+name, string(content))
	}
	r := d.ingestObjects(t, b)
	notes := strings.Join(r.Notes, "\n")
	said := strings.Contains(notes, b.url("day1.log")+" has changed since it was")
	if r.NewFiles != 1 || r.KnownFiles != 1 || !said || strings.Contains(notes, "day0") || r.Flows != 201 {
		t.Errorf("report %+v", r)
	}
	b.take()
	r = d.ingestObjects(t, b)
	again := b.take()
	if len(again) != 0 || r.KnownFiles != 2 {
		t.Errorf("copied again: %v, report %+v", again, r)
	}
}

// If a listing or a copy fails, no flows of the night are kept. Otherwise, users would compare a part of a
// night with whole nights. No copies remain on the disk.
func TestFailedCopyChangesNothing(t *testing.T) {
	d, b := newBucket(t, 3)
	tr := d.fromBucket(b, b.url("day0.log"))
	if _, err := Ingest(t.Context(), tr, d.settings()); err != nil {
		t.Fatal(err)
	}
	before := d.onDisk(t)
	whole := d.fromBucket(b, bucketURL)
	whole.SkipDamaged = true // does not apply: the object can be read tomorrow
	b.broken = b.url("day2.log")
	_, err := Ingest(t.Context(), whole, d.settings())
	if err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("error %v", err)
	}
	whole.Objects = append(whole.Objects, b.url("missing"))
	b.broken = ""
	b.take()
	_, err = Ingest(t.Context(), whole, d.settings())
	if err == nil || !strings.Contains(err.Error(), "missing: matches no object") || len(b.take()) > 0 {
		t.Errorf("error %v", err)
	}
	after := d.onDisk(t)
	if !slices.Equal(after, before) || d.count(t) != "100" {
		t.Errorf("files %v, before %v; %s flows", after, before, d.count(t))
	}
	left, err := filepath.Glob(d.path("lake/_tmp/*/objects"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A remark about the copy of an object names the object, because the copy does not exist any more.
func TestDamagedObjectIsNamed(t *testing.T) {
	d, b := newBucket(t, 1)
	d.write(t, "bucket/day1.log.gz", "no gzip")
	_, err := Ingest(t.Context(), d.fromBucket(b, bucketURL), d.settings())
	if err == nil || !strings.Contains(err.Error(), "flow file "+b.url("day1.log.gz")+": damaged") {
		t.Errorf("error %v", err)
	}
	tr := d.fromBucket(b, bucketURL)
	tr.SkipDamaged = true
	r, err := Ingest(t.Context(), tr, d.settings())
	if err != nil || len(r.Skipped) != 1 || r.Skipped[0].File != b.url("day1.log.gz") || r.Flows != 100 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// Without a name, the objects of a prefix belong to the workload that has one of them.
func TestUnnamedWorkloadOfObjects(t *testing.T) {
	d, b := newBucket(t, 2)
	ingest := func(url string) string {
		tr := d.fromBucket(b, url)
		tr.Workload = ""
		r, err := Ingest(t.Context(), tr, d.settings())
		if err != nil {
			t.Fatal(err)
		}
		return r.Workload
	}
	first := ingest(b.url("day0.log"))
	other := ingest(b.url("day1.log"))
	if other == first {
		t.Error("other objects are in the same workload")
	}
	again := ingest(b.url("day0.log"))
	if again != first {
		t.Errorf("workload %s, want %s", again, first)
	}
}
