package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// A world is a directory with the inputs of the commands and a lake. In the lake, scenario tiny is estimated,
// and the first day of workload days is ingested.
type world struct{ dir string }

func (w world) path(name string) string { return filepath.Join(w.dir, name) }

const tinyText = `topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 1, planes: 2, spines_per_plane: 1,
    host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 40%
  flows_count: 100
  services: [{name: web, vnet: blue, sizes: webserver, sigma: 1}]
`

const vpcHeader = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
	"start end action log-status\n"

// inputs returns the files of a world, except for the lake.
func inputs() map[string]string {
	rack := "src_node,dst_node,bandwidth_bps,delay_ns\n0,3,10000000000,1000\n1,3,10000000000,1000\n2,3,10000000000,1000\n"
	files := map[string]string{
		"tiny.yaml":     tinyText,
		"other.yaml":    "seed: 7\n" + tinyText,
		"net/nodes.csv": "node_id,kind\n0,host\n1,host\n2,host\n3,tor\n",
		"net/links.csv": rack,
		"hosts.csv":     "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2\n",
	}
	for day := range 2 {
		var b strings.Builder
		b.WriteString(vpcHeader)
		for i := range 100 {
			start := 1769817600 + day*86400 + i
			for eni := range 2 {
				fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n",
					eni, 1+i%3, 1+(i+1)%3, 40000+i, 5000+i, start, start+1)
			}
		}
		b.WriteString("2 1 eni-1 - - - - - - - 1769817600 1769817660 - NODATA\n")
		files[fmt.Sprintf("day%d.log", day)] = b.String()
	}
	return files
}

// template returns a world that tests copy.
var template = sync.OnceValues(func() (world, error) {
	w := world{filepath.Join(worlds, "template")}
	for name, text := range inputs() {
		if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
			return w, err
		}
		if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
			return w, err
		}
	}
	return w, errors.Join(w.do(nil, runOf("tiny.yaml")...), w.do(nil, ingestOf("day0.log")...))
})

// newWorld copies the template.
func newWorld(t testing.TB) world {
	t.Helper()
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	return copyOf(t, from)
}

// copyOf copies a world. The files of the copied lake are new files, so that all of them are read and
// verified again.
func copyOf(t testing.TB, from world) world {
	t.Helper()
	dir, err := os.MkdirTemp(worlds, "copy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.CopyFS(dir, os.DirFS(from.dir)); err != nil {
		t.Fatal(err)
	}
	return world{dir}
}

// The command lines of the tests. Each uses the directory lake in its working directory.
func runOf(file string, flags ...string) []string {
	return append([]string{"run", file, "--passes", "1", "--workers", "1", "--partitions", "4",
		"-q", "--lake", "lake"}, flags...)
}

func ingestOf(files ...string) []string {
	return append([]string{"ingest", "--topology", "net", "--hosts", "hosts.csv", "--format", "vpc",
		"--workload", "days", "-q", "--lake", "lake"}, files...)
}

func whatIfOf(flags ...string) []string {
	return append([]string{"what-if", "tiny", "--passes", "1", "--workers", "1", "--partitions", "4",
		"-q", "--lake", "lake"}, flags...)
}

// command returns a process in the world that runs parsimon, or the program that the command line begins
// with.
func (w world) command(ctx context.Context, env []string, args ...string) (*exec.Cmd, error) {
	program := programs["parsimon"]
	if other, ok := programs[args[0]]; ok {
		program = other
		args = args[1:]
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Env = w.dir, append(os.Environ(), env...)
	return c, nil
}

// do runs a command line. Its error includes the program's output on stderr.
func (w world) do(env []string, args ...string) error {
	_, err := w.output(env, args...)
	return err
}

func (w world) output(env []string, args ...string) (string, error) {
	c, err := w.command(context.Background(), env, args...)
	if err != nil {
		return "", err
	}
	var out, log bytes.Buffer
	c.Stdout = &out
	c.Stderr = &log
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("parsimon %s: %w\n%s", strings.Join(args, " "), err, log.String())
	}
	return out.String(), nil
}

// A snapshot is what readers see of a lake. It maps "PLACE; TABLE" to a digest of the rows of the table.
type snapshot map[string]string

// look reads and verifies all committed files, like queries.
func (w world) look() (snapshot, error) {
	l, err := lake.Open(w.path("lake"), false)
	if err != nil {
		return nil, err
	}
	reading := l.LockForReading()
	defer reading.Close()
	manifests, err := l.Manifests()
	if err != nil {
		return nil, err
	}
	seen := snapshot{}
	for _, m := range manifests {
		for _, t := range schema.Tables() {
			files := lake.FilesOf(m.Files, t)
			if len(files) == 0 {
				continue
			}
			unit := m.Place.String()
			if t.Published { // published separately
				unit += " (answers)"
			}
			if seen[unit+"; "+t.Name], err = digest(l, t, files); err != nil {
				return nil, err
			}
		}
	}
	return seen, nil
}

// undetermined lists the columns that differ between equal estimates: the number and the choice of link cases
// from the cache, and the duration of a run.
var undetermined = []string{"cached", "cached_cases", "simulated_cases", "seconds"}

// digests caches the digests of rows by their table and the digests of the files' bytes, which determine the
// rows.
var digests sync.Map

// digest verifies and reads files, omitting undetermined columns. If the rows for their bytes are known, it
// only verifies the bytes.
func digest(l *lake.Lake, t schema.Table, files []lake.DataFile) (string, error) {
	key := t.Name
	for _, f := range files {
		if err := l.Check(f); err != nil {
			return "", err
		}
		key += " " + f.Digest
	}
	if known, ok := digests.Load(key); ok {
		for _, f := range files {
			if err := l.Check(f); err != nil {
				return "", err
			}
		}
		return known.(string), nil
	}
	text, err := digestOfRows(l, t, files)
	if err == nil {
		digests.Store(key, text)
	}
	return text, err
}

func digestOfRows(l *lake.Lake, t schema.Table, files []lake.DataFile) (string, error) {
	h := fnv.New64a()
	n := 0
	in := l.Read(t, files, nil)
	defer func() { _ = in.Close() }() // only read
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Sprintf("%d rows %x", n, h.Sum64()), nil
		}
		if err != nil {
			return "", err
		}
		for i := range int(rec.NumRows()) {
			for c := range int(rec.NumCols()) {
				if !slices.Contains(undetermined, rec.ColumnName(c)) {
					_, _ = h.Write(append([]byte(rec.Column(c).ValueStr(i)), 0))
				}
			}
			n++
		}
		rec.Release()
	}
}

// between returns an error if a place in the snapshot has neither its previous nor its new content.
func (s snapshot) between(before, after snapshot) error {
	places := map[string]bool{}
	for _, all := range []snapshot{s, before, after} {
		for key := range all {
			place, _, _ := strings.Cut(key, "; ")
			places[place] = true
		}
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		now := s.of(place)
		if !maps.Equal(now, before.of(place)) && !maps.Equal(now, after.of(place)) {
			return fmt.Errorf("%s is neither as before nor as after: %v\nbefore %v\nafter %v",
				place, now, before.of(place), after.of(place))
		}
	}
	return nil
}

// of returns the part of the snapshot that belongs to one place.
func (s snapshot) of(place string) snapshot {
	part := snapshot{}
	for key, value := range s {
		of, _, _ := strings.Cut(key, "; ")
		if of == place {
			part[key] = value
		}
	}
	return part
}

// same returns an error if the snapshot differs from want.
func (s snapshot) same(want snapshot) error {
	if !maps.Equal(s, want) {
		return fmt.Errorf("readers see %v\nwant %v", s, want)
	}
	return nil
}
