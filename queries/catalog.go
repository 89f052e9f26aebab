package queries

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"parsimon/queries/duckdb"
)

// CatalogFile is the name of the catalog in a lake: a DuckDB database with views and macros only.
const CatalogFile = "parsimon.duckdb"

// WriteCatalog writes LAKE/parsimon.duckdb with views over exactly the given files. Paths in it are absolute, so that
// it can be opened from any directory. Where the lake is moved, it must be written again. The file is replaced by one
// rename: readers see the old catalog or the new one.
//
// The catalog must be written again whenever files are added or removed. It is written in the
// directory temp of the lake, which must not exist, and which a process that is killed meanwhile leaves.
//
// Errors: a lake that CheckLakePath refuses; a file outside the lake; a file that is not Parquet.
func WriteCatalog(lake, temp string, files []File) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the catalog of lake %s: %w", lake, duckdb.FirstLine(err))
		}
	}()
	root, all, err := viewsOf(lake, files)
	if err == nil {
		err = CheckLakePath(root)
	}
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := checkInside(root, v.files); err != nil {
			return err
		}
	}
	dir := filepath.Join(root, temp)
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made, to := filepath.Join(dir, CatalogFile), filepath.Join(root, CatalogFile)
	if err := createCatalog(made, all); err != nil {
		return err
	}
	// After a power failure either the old or the new file is there, complete.
	if err := flush(made); err != nil {
		return err
	}
	if err := os.Rename(made, to); err != nil {
		return err
	}
	return flush(root)
}

// viewsOf returns the absolute path of a lake and the views over files of it.
func viewsOf(lake string, files []File) (root string, all []view, err error) {
	if root, err = lakeRoot(lake); err == nil {
		all, err = views(files, root+string(filepath.Separator), false)
	}
	return root, all, err
}

func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func createCatalog(path string, all []view) error {
	return duckdb.Build(path, func(run duckdb.Runner) error {
		// With a low threshold the commit writes the file itself, and no log of each view and comment before.
		if err := run("SET checkpoint_threshold = '1KB'; BEGIN"); err != nil {
			return err
		}
		if err := createFunctions(run); err != nil {
			return err
		}
		if err := createViews(run, all); err != nil {
			return err
		}
		for _, v := range all {
			if v.isMacro {
				continue
			}
			if err := commentView(run, v); err != nil {
				return fmt.Errorf("view %s: %w", v.name, err)
			}
		}
		return run("COMMIT; CHECKPOINT") // the checkpoint leaves no log beside the file
	})
}

// commentView says in the catalog what a view and its columns are.
func commentView(run duckdb.Runner, v view) error {
	name := duckdb.Ident(v.name)
	comments := []string{"COMMENT ON VIEW " + name + " IS " + duckdb.Quote(v.comment)}
	for column, comment := range v.columns {
		comments = append(comments, "COMMENT ON COLUMN "+name+"."+duckdb.Ident(column)+" IS "+duckdb.Quote(comment))
	}
	slices.Sort(comments)
	return run(strings.Join(comments, "; "))
}

// CatalogDigest returns a digest of the catalog's views over the files: while it is the same, so are the views.
func CatalogDigest(lake string, files []File) (string, error) {
	_, all, err := viewsOf(lake, files)
	if err != nil {
		return "", err
	}
	h := xxh3.New()
	for _, text := range functions() {
		_, _ = h.WriteString(text + "\x00") // a hash takes everything
	}
	for _, v := range all {
		_, _ = h.WriteString(v.name + "\x00" + v.sql + "\x00" + v.comment + "\x00")
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:]), nil
}

// functions are the scalar macros of the catalog: name(parameters) AS …
func functions() []string {
	return []string{sizeBinMacro(), macro("percentile_cell"), macro("percentile_within")}
}

// tableMacros are the table macros of the catalog, each after those that it uses. few: those of macros/few, where there
// is one.
func tableMacros(few bool) (all []view) {
	folder := ""
	if few {
		folder = "few/"
	}
	for _, file := range []string{"flow_groups", folder + "percentiles_and_whole", folder + "percentiles",
		folder + "flow_percentiles", "percentiles_of"} {
		text := macro(file)
		all = append(all, view{name: path.Base(file), sql: text, needs: namesIn(text), isMacro: true})
	}
	return all
}

// macro is the text of a file of folder macros, without comments.
func macro(file string) string {
	return sqlComment.ReplaceAllString(string(read("macros/"+file+".sql")), "")
}

var sqlComment = regexp.MustCompile(`(?m)^\s*--.*\n`)

func createFunctions(run duckdb.Runner) error {
	for _, text := range functions() {
		if err := run("CREATE MACRO " + text); err != nil {
			return fmt.Errorf("macro %.20s: %w", text, err)
		}
	}
	return nil
}

// createViews creates views that do not exist. Views of tables are empty until all others are created:
// CREATE VIEW binds its SQL, and so opens a file of each scenario whenever it reads a table.
func createViews(run duckdb.Runner, views []view) error {
	for _, v := range views {
		create := "CREATE VIEW " + duckdb.Ident(v.name) + " AS " + cmp.Or(v.empty, v.sql)
		if v.isMacro {
			create = "CREATE MACRO " + v.sql
		}
		if err := run(create); err != nil {
			return fmt.Errorf("view %s: %w", v.name, err)
		}
	}
	for _, v := range views {
		if len(v.files) == 0 {
			continue
		}
		if err := run("CREATE OR REPLACE VIEW " + duckdb.Ident(v.name) + " AS " + v.sql); err != nil {
			return fmt.Errorf("view %s: %w", v.name, err)
		}
	}
	return nil
}
