// Package catalog converts the manifests of a lake to the list of files that queries read. It keeps the views
// in LAKE/parsimon.duckdb up to date with the manifests.
//
//	manifests ─► committed files ─┬─► Options ─► queries.Open, which verifies each file before it reads it
//	                              └─► Write ─► LAKE/parsimon.duckdb, and its digest in LAKE/_state/views
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/variant"
)

// Options returns options of queries.Open with which it reads and verifies exactly the committed files: those
// of the given scenarios or, if none are given, of the whole lake. They are right for the questions of the
// program. With few flows, one thread answers them.
func Options(l *lake.Lake, limits duckdb.Options, scenarios ...lake.ScenarioID) (queries.Options, error) {
	files, byPath, err := Committed(l, scenarios...)
	o := queries.Options{Options: limits, Files: files}
	o.Verify = func(path string) error { return l.Check(byPath[path]) }
	var flows, rows int64
	for _, f := range files {
		n := byPath[f.Path].Rows
		rows += n
		if f.Table == schema.Slowdowns.Name || f.Table == schema.SampledSlowdowns.Name {
			flows += n
		}
	}
	o.Few = flows < FewFlows
	if o.Few && rows < fewRows {
		o.Threads = 1
	}
	return o, err
}

// FewFlows is the number of flows that a summary reads in half a second. The slowdowns of these flows take
// 8 MB. Up to this number, two threads need a fifth more processor time than one thread and are no faster.
const FewFlows = 1_000_000

// Most tables have a row for each flow, and those of hops have up to ten.
const fewRows = 10 * FewFlows

// Committed returns the files that the manifests name, both for queries and by their paths. If manifests are
// damaged, it returns an error together with the files of the other manifests.
func Committed(l *lake.Lake, scenarios ...lake.ScenarioID) ([]queries.File, map[string]lake.DataFile, error) {
	manifests, err := l.Manifests(scenarios...)
	files := []queries.File{}
	byPath := map[string]lake.DataFile{}
	answers := map[string]variant.Variant{}
	for _, m := range manifests {
		if m.Variant.IsZero() && m.Scenario != "" {
			answers[string(m.Scenario)] = l.Answer(m.Scenario)
		}
		for _, f := range m.Files {
			t, terr := f.Table()
			if terr != nil {
				err = errors.Join(err, terr)
				continue
			}
			file := queries.File{
				Table: t.Name, Path: f.Path, Scenario: string(m.Scenario), Workload: string(m.Workload),
				Version: cmp.Or(f.Version, m.SchemaVersion),
			}
			if t.Variant {
				file.Variant = m.Variant
			}
			files = append(files, file)
			byPath[f.Path] = f
		}
	}
	queries.MarkAnswers(files, answers)
	return files, byPath, err
}

// Write updates the lake's views to match the manifests. Commands call it at their end. Writing the views
// takes longer than a small estimate, so views that are up to date are not written again.
func Write(l *lake.Lake) error {
	lock, err := l.LockCatalog()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := l.RemoveCatalogTemp(); err != nil {
		return err
	}
	files, _, err := Committed(l)
	// Its views would name files that may no longer exist.
	other := (*lake.VersionError)(nil)
	if errors.As(err, &other) {
		if err = os.Remove(filepath.Join(l.Path(), queries.CatalogFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(l.Path())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing that it writes must be durable
	views, err := queries.NewCatalog(l.Path(), files)
	if err != nil {
		return err
	}
	digest := views.Digest()
	if upToDate(root, digest) {
		return nil
	}
	err = errors.Join(views.Write(lake.CatalogTemp), l.RemoveCatalogTemp())
	if err == nil {
		noteWritten(root, digest)
	}
	return err
}

// writtenFile is the state file that describes the views in LAKE/parsimon.duckdb: the digest of the views,
// and the size and modification time of the catalog file.
const writtenFile = "_state/views"

// stamp returns the content of writtenFile for a catalog that has the views with the given digest. If there
// is no catalog, it is empty.
func stamp(root *os.Root, digest string) string {
	info, err := root.Lstat(queries.CatalogFile)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d\n", digest, info.Size(), info.ModTime().UnixNano())
}

// upToDate reports whether the catalog has the views with the given digest and was not changed since it was
// written.
func upToDate(root *os.Root, digest string) bool {
	want := stamp(root, digest)
	if info, err := root.Lstat(writtenFile); err != nil || !info.Mode().IsRegular() ||
		info.Size() != int64(len(want)) {
		return false // opening a named pipe, for example, would block
	}
	written, err := root.ReadFile(writtenFile)
	return err == nil && want != "" && string(written) == want
}

// noteWritten records that the catalog has the views with the given digest. If this fails, the next command
// writes the views again.
func noteWritten(root *os.Root, digest string) {
	_ = root.Remove(writtenFile) // it may be a link
	if f, err := root.OpenFile(writtenFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		_, _ = f.WriteString(stamp(root, digest))
		_ = f.Close()
	}
}
