package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// checkVersions returns an error if a file of the views has another version of the schema. It reads the metadata
// of the first file of each scenario, variant and workload. Files without a version pass.
func checkVersions(ctx context.Context, conn *sql.Conn, views []view) error {
	var files []string
	for _, v := range views {
		for _, f := range v.firsts {
			if info, err := os.Stat(f); err != nil || !info.Mode().IsRegular() {
				continue // whoever reads it reports it
			}
			files = append(files, duckdb.Quote(f))
		}
	}
	if len(files) == 0 {
		return nil
	}
	query := fmt.Sprintf("SELECT file_name, decode(value) FROM parquet_kv_metadata([%s]) "+
		"WHERE decode(key) = %s AND decode(value) <> %s ORDER BY file_name LIMIT 1", strings.Join(files, ", "),
		duckdb.Quote(schema.VersionKey), duckdb.Quote(strconv.Itoa(schema.Version)))
	var file, version string
	if err := conn.QueryRowContext(ctx, query).Scan(&file, &version); err != nil {
		return nil // no such file, or a damaged one, which the statement that reads it reports
	}
	return fmt.Errorf("%s: schema version %q, this program reads and writes version %d: "+
		"run the scenario again in a new lake, or use the program that wrote this one", file, version, schema.Version)
}

// CheckVersion returns an error if a file of the lake has another version of the schema. Commands that write
// call it first, so that no lake has files of two versions. The lake need not exist yet.
func CheckVersion(ctx context.Context, lake string) (err error) {
	root, err := filepath.Abs(lake)
	if err != nil {
		return err
	}
	files, err := FindFiles(root)
	if err != nil {
		return err
	}
	all, err := views(files, root+string(filepath.Separator))
	if err != nil {
		return err
	}
	db, err := duckdb.Open(ctx, duckdb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return checkVersions(ctx, conn, all)
}
