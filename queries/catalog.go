package queries

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"parsimon/queries/duckdb"
)

// CatalogFile is the name of the catalog in a lake. It is a DuckDB database with views and macros only.
const CatalogFile = "parsimon.duckdb"

// A Catalog has the views of LAKE/parsimon.duckdb over exactly the given files of a lake.
type Catalog struct {
	root  string // absolute path of the lake
	views []view
}

// NewCatalog returns the catalog of files of a lake. It returns an error if CheckLakePath rejects the lake,
// or if a file is outside the lake. It opens no file: if one is damaged, DuckDB fails when it reads the view.
func NewCatalog(lake string, files []File) (*Catalog, error) {
	fail := func(err error) (*Catalog, error) { return nil, fmt.Errorf("catalog of lake %s: %w", lake, err) }
	root, err := lakeRoot(lake)
	if err == nil {
		err = CheckLakePath(root)
	}
	if err != nil {
		return fail(err)
	}
	all, err := views(files, lakeFiles{root: root, movable: true}, boundedMacros)
	if err != nil {
		return fail(err)
	}
	own := []view{lakeFiles{root: root}.function()}
	c := &Catalog{root, slices.Concat(functions(), own, throughFunctions(all))}
	for _, v := range c.views {
		if err := checkInside(root, v.files); err != nil {
			return fail(err)
		}
	}
	return c, nil
}

// Digest returns a digest of the views. Equal digests mean equal views.
func (c *Catalog) Digest() string {
	h := xxh3.New()
	for _, v := range c.views {
		_, _ = h.WriteString(v.name + "\x00" + v.sql + "\x00" + v.comment + "\x00") // never fails
	}
	return hexDigest(h)
}

// Write writes LAKE/parsimon.duckdb. It can be opened from any directory. If the lake was moved, the
// statement SET VARIABLE lake = 'DIRECTORY' makes the views find their files until a command of the program
// writes them again. The file is replaced by one rename: readers see the old catalog or the new one.
//
// The catalog must be written again whenever files are added or removed. It is written to directory temp of
// the lake, which must not exist. A killed process leaves this directory behind.
func (c *Catalog) Write(temp string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the catalog of lake %s: %w", c.root, duckdb.FirstLine(err))
		}
	}()
	dir := filepath.Join(c.root, temp)
	if err := makeTemp(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made := filepath.Join(dir, CatalogFile)
	if err := createCatalog(made, c.views, shippedTemplate()); err != nil {
		return err
	}
	// After a power failure, either the old or the new file exists, complete.
	if err := flush(made); err != nil {
		return err
	}
	if err := os.Rename(made, filepath.Join(c.root, CatalogFile)); err != nil {
		return err
	}
	return flush(c.root)
}

// makeTemp makes a directory that must not exist. A command that ends may remove the directory above it, if
// that is empty, at any time.
func makeTemp(dir string) (err error) {
	const attempts = 100
	for range attempts {
		err = errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o755))
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// createCatalog writes a catalog with the views to a new file, by changing the template.
func createCatalog(path string, all []view, from template) error {
	if err := from.unpack(path); err != nil {
		return err
	}
	return duckdb.Build(path, func(run duckdb.Runner) error {
		// With a low threshold, the commit writes the file directly, without a log of each view and comment.
		if err := run("SET checkpoint_threshold = '1KB'; BEGIN"); err != nil {
			return err
		}
		changed, removed := from.differences(all)
		for _, statement := range removed {
			if err := run(statement); err != nil {
				return err
			}
		}
		if err := createViews(run, createOrReplace, changed); err != nil {
			return err
		}
		for _, v := range changed {
			if v.kind != isView {
				continue
			}
			if err := commentView(run, v); err != nil {
				return fmt.Errorf("view %s: %w", v.name, err)
			}
		}
		return run("COMMIT; CHECKPOINT") // the checkpoint removes the log beside the file
	})
}

// commentView writes the comments of a view and of its columns to the catalog.
func commentView(run duckdb.Runner, v view) error {
	name := duckdb.Ident(v.name)
	comments := []string{"COMMENT ON VIEW " + name + " IS " + duckdb.Quote(v.comment)}
	for column, comment := range v.columns {
		comments = append(comments, "COMMENT ON COLUMN "+name+"."+duckdb.Ident(column)+" IS "+duckdb.Quote(comment))
	}
	slices.Sort(comments)
	return run(strings.Join(comments, "; "))
}

func hexDigest(h *xxh3.Hasher) string {
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}
