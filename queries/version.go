package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"parsimon/schema"
)

// checkVersions refuses a lake whose files keep to another version of the schema than ours. It looks at
// the first file of each table of each scenario, variant and workload; files that say no version
// are taken for ours.
func checkVersions(ctx context.Context, conn *sql.Conn, root string) error {
	var files []string
	for _, t := range schema.Tables() {
		for _, v := range t.Views() {
			dirs, err := filepath.Glob(filepath.Join(root, t.Name, strings.Join(v.Hive, "=*/")+"=*"))
			if err != nil {
				return err
			}
			for _, dir := range dirs {
				if parts, err := filepath.Glob(filepath.Join(dir, "part-*.parquet")); err == nil && len(parts) > 0 {
					files = append(files, quote(parts[0]))
				}
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	var file, version string
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT file_name, decode(value) FROM parquet_kv_metadata([%s]) WHERE decode(key) = %s AND decode(value) <> %s ORDER BY file_name LIMIT 1",
		strings.Join(files, ", "), quote(schema.VersionKey), quote(strconv.Itoa(schema.Version)))).Scan(&file, &version)
	if err != nil { // no such file, or a damaged one, which is an error of the question that reads it
		return nil
	}
	return fmt.Errorf("%s: schema version %q, this program reads and writes version %d: make the scenario again in a new lake, or use the program that made this one", file, version, schema.Version)
}

// CheckVersion refuses a lake, which need not exist yet, whose files keep to another version of the
// schema, and says what to do: before work that would mix the two.
func CheckVersion(ctx context.Context, lake string) (err error) {
	root, err := filepath.Abs(lake)
	if err != nil {
		return err
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return checkVersions(ctx, conn, root)
}
