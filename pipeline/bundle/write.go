package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// Write writes the bundle of a complete estimate. The caller holds lake.LockForReading.
func Write(ctx context.Context, out io.Writer, e *pipeline.Estimation, by Program) (*Manifest, error) {
	if e.Spec.Windows != nil {
		return nil, fmt.Errorf("scenario %s consists of windows of scenario %s: export that one", e.ID(),
			e.Spec.Windows.Of)
	}
	by.Versions = Current()
	m := &Manifest{Format: formatVersion, MadeBy: by, Scenario: e.Spec, Variant: e.Variant().String()}
	m.Scenario.Aliases = nil
	m.Scenario.Named = nil
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	m.Workload = Workload{g.Merged, g.SetAside, g.GenerateStats}
	files, err := inputFiles(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		m.Files = append(m.Files, f.File)
	}
	if m.Tables, err = digestTables(ctx, e); err != nil {
		return nil, err
	}
	return m, writeArchive(ctx, out, m, files)
}

// inputFiles lists the data files of the scenario's input.
func inputFiles(ctx context.Context, e *pipeline.Estimation) (files []content, err error) {
	for _, t := range pipeline.InputTables {
		all, err := e.Files(t)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, d := range all {
			if d.Rows == 0 {
				continue
			}
			c := content{open: func() (io.ReadCloser, error) { return e.Lake.OpenFile(d) }}
			c.Name = fileName(t, n)
			if err := errors.Join(ctx.Err(), c.describe(e.Lake, d)); err != nil {
				return nil, err
			}
			files = append(files, c)
			n++
		}
	}
	return files, nil
}

// describe sets the size and the digest of a file. If the file is damaged, it returns an error.
func (c *content) describe(l *lake.Lake, d lake.DataFile) error {
	if err := l.Check(d); err != nil {
		return err
	}
	in, err := c.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	hash := sha256.New()
	c.Bytes, err = io.Copy(hash, in)
	c.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return err
}

// digestTables digests the tables of an estimate.
func digestTables(ctx context.Context, e *pipeline.Estimation) (digests []TableDigest, err error) {
	for _, t := range e.Tables() {
		if t.Name == schema.Scenarios.Name { // it has names, which may differ
			continue
		}
		d := TableDigest{Table: t.Name, Columns: digestColumns(t)}
		in, err := e.Read(t)
		if err != nil {
			return nil, err
		}
		if d.Rows, d.Digest, err = digestRows(ctx, in, d.Columns); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		digests = append(digests, d)
	}
	return digests, nil
}
