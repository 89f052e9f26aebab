package queries

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	driver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/daily"
)

// openCatalog opens the catalog of a lake without the sandbox, as a user of DuckDB does.
func openCatalog(t *testing.T, path string) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector(path+"?access_mode=read_only", nil)
	if err != nil {
		t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

func count(t *testing.T, db *sql.DB, text string) int {
	t.Helper()
	var n int
	if err := db.QueryRow(text).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

var catalogs atomic.Int64

// writeCatalog writes the catalog of the files in the lake's folders.
func writeCatalog(lake string) error {
	files, err := findFiles(lake)
	if err != nil {
		return err
	}
	return writeCatalogOf(lake, files)
}

func writeCatalogOf(lake string, files []File) error {
	catalog, err := NewCatalog(lake, files)
	if err != nil {
		return err
	}
	return catalog.Write(fmt.Sprintf("_tmp/catalog-%d", catalogs.Add(1)))
}

// checkCatalog asks the given views of the catalog of the known lake. If none are given, it asks a third of all
// each day.
func checkCatalog(t *testing.T, path string, views ...string) {
	t.Helper()
	db := openCatalog(t, path)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if len(views) == 0 {
		views = slices.DeleteFunc(viewNames(t, db), func(v string) bool { return !isAskedToday(v) })
	}
	for _, v := range views {
		n := count(t, db, "SELECT count(*) FROM "+duckdb.Ident(v))
		if want, known := map[string]int{"slowdowns": 11, "slowdowns_all": 18, "flows": 8, "nodes": 4, "hops": 0,
			"slowdown_by_size": 7}[v]; known && n != want {
			t.Errorf("%s has %d rows, want %d", v, n, want)
		}
	}
	n := count(t, db, "SELECT count(*) FROM slowdown_by_size WHERE scenario = '007'")
	if n != 2 {
		t.Errorf("scenario 007 has %d rows", n)
	}
}

// tableViewNames returns the names of the views of tables.
func tableViewNames() (names []string) {
	for _, table := range schema.Tables() {
		for _, v := range table.Views() {
			names = append(names, v.Name)
		}
	}
	return names
}

func viewNames(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.Query("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCatalog(t *testing.T) {
	lake := makeKnownLake(t)
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(lake, CatalogFile)

	t.Run("holds views and macros only", func(t *testing.T) {
		db := openCatalog(t, file)
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		want := append([]string{"variants", "size_bins", "link_names", "intervals_by_group",
			"intervals_by_group_all", "crossings", "crossings_all"}, tableViewNames()...)
		for _, q := range listed(t) {
			want = append(want, q.Name)
		}
		slices.Sort(want)
		got := viewNames(t, db)
		if !slices.Equal(got, want) {
			t.Errorf("got views %v\nwant %v", got, want)
		}
		n := count(t, db, "SELECT (SELECT count(*) FROM duckdb_tables()) + (SELECT count(*) FROM duckdb_types() "+
			"WHERE NOT internal)")
		if n != 0 {
			t.Errorf("%d tables and types", n)
		}
		n = count(t, db, "SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'sql_of_%'")
		want = append(tableViewNames(), "variants", "crossings", "crossings_all")
		if n != len(want) {
			t.Errorf("%d functions with SQL, want %d", n, len(want))
		}
		n = count(t, db, "SELECT count(*) FILTER (WHERE function_name IN ('flow_groups', 'flow_percentiles', "+
			"'lake_files', 'percentile_cell', 'percentile_within', 'percentiles', 'percentiles_and_whole', "+
			"'percentiles_of', 'size_bin_of')) - 100 * count(*) FROM duckdb_functions() WHERE NOT internal "+
			"AND function_name NOT LIKE 'sql_of_%'")
		if n != 9-900 {
			t.Errorf("other macros than the nine: %d", n)
		}
		n = count(t, db, "SELECT count(*) FROM duckdb_views() WHERE NOT internal AND coalesce(comment, '') = ''")
		if n != 0 {
			t.Errorf("%d views without a comment", n)
		}
		if n := count(t, db, `SELECT count(*) FROM duckdb_columns() AS c WHERE NOT internal AND coalesce(comment, '') = ''
			AND table_name IN (`+"'"+strings.Join(tableViewNames(), "','")+"'"+`)
			AND table_name NOT IN (SELECT view_name FROM duckdb_views() WHERE comment LIKE '% Its columns are those of view %.')`); n != 0 {
			t.Errorf("%d columns of tables without a comment", n)
		}
	})
	t.Run("works from inside the lake", func(t *testing.T) {
		t.Chdir(lake)
		checkCatalog(t, CatalogFile)
	})
	t.Run("works from another directory", func(t *testing.T) {
		t.Chdir(t.TempDir())
		checkCatalog(t, file, "slowdowns", "slowdown_by_size")
	})
	t.Run("is written again in a moved lake", func(t *testing.T) {
		moved := filepath.Join(t.TempDir(), "moved 'lake'")
		if err := os.Rename(lake, moved); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Rename(moved, lake); err != nil {
				t.Fatal(err)
			}
		}()
		if err := writeCatalog(moved); err != nil {
			t.Error(err)
		}
		checkCatalog(t, filepath.Join(moved, CatalogFile), "slowdowns", "nodes")
		got := sqlCSV(t, open(t, moved, Options{}), "SELECT count(*) AS n FROM slowdowns_all")
		if got != "n\n18\n" {
			t.Error(got)
		}
		if err := os.Remove(filepath.Join(moved, CatalogFile)); err != nil {
			t.Error(err)
		}
	})
	t.Run("is written anew, leaves nothing behind", func(t *testing.T) {
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if err := writeCatalog(lake); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for _, pattern := range []string{".*", CatalogFile + ".*", "_tmp/catalog*"} {
			left, _ := filepath.Glob(filepath.Join(lake, pattern))
			if left != nil {
				t.Errorf("left behind: %s", left)
			}
		}
		t.Chdir(lake)
		checkCatalog(t, CatalogFile, "slowdowns", "link_loads")
	})
}

// The view of a table without files is empty, with the columns and types of the table. Otherwise every
// question would fail in a lake that lacks a table.
func TestEmptyTables(t *testing.T) {
	lake := t.TempDir()
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	empty := openCatalog(t, filepath.Join(lake, CatalogFile))
	for _, q := range listed(t) {
		n := count(t, empty, "SELECT count(*) FROM "+q.Name)
		if n != 0 {
			t.Errorf("%s: %d rows from nothing", q.Name, n)
		}
	}
	before := describe(t, empty)
	if err := empty.Close(); err != nil {
		t.Fatal(err)
	}
	raw := rawDB(t)
	for _, table := range schema.Tables() {
		columns := strings.Repeat("NULL, ", len(table.Columns)-1) + "NULL"
		for _, v := range table.Views() {
			writePart(t, raw, lake, table.Name, strings.Join(v.Hive, "=x/")+"=x", "SELECT "+columns)
		}
	}
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	full := openCatalog(t, filepath.Join(lake, CatalogFile))
	after := describe(t, full)
	if after != before {
		t.Errorf("empty tables:\n%s\nfull tables:\n%s", before, after)
	}
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
}

// describe lists the columns of every view with their types.
func describe(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all sql.NullString
	err := db.QueryRow(`SELECT string_agg(table_name || '.' || column_name || ' ' || data_type, chr(10) ORDER BY table_name, column_index)
		FROM duckdb_columns() WHERE NOT internal`).Scan(&all)
	if err != nil || !strings.Contains(all.String, "slowdowns.slowdown DOUBLE") {
		t.Fatal(err, all.String)
	}
	return all.String
}

func TestCatalogErrors(t *testing.T) {
	comma := filepath.Join(t.TempDir(), "a,b")
	if err := os.Mkdir(comma, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(comma, "missing"): "no such directory", comma: "must not have the character ','",
	} {
		if err := writeCatalog(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", path, want, err)
		}
	}
}

// A damaged file does not keep commands from writing the views of other files. DuckDB names the file when it
// reads the view.
func TestCatalogOfDamagedFile(t *testing.T) {
	lake := makeKnownLake(t)
	const damaged = "nodes/scenario=aaa/part-00000.parquet"
	if err := os.WriteFile(filepath.Join(lake, damaged), []byte("not Parquet"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(lake, CatalogFile)
	checkCatalog(t, path, "slowdowns", "flows")
	db := openCatalog(t, path)
	defer db.Close()
	_, err := db.Exec("FROM nodes")
	if err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("view of a damaged file: %v", err)
	}
}

// A lake can be opened and gets a catalog if CheckLakePath accepts its path. All functions refuse other
// paths. Short tests have one accepted path each day.
func TestLakePaths(t *testing.T) {
	accepted := []string{`--a'b"c d;e`, "scenario=zz", "md:a#b:c&x=1~$a{b}+b@c!é"}
	if testing.Short() {
		accepted = daily.Today(len(accepted), accepted...)
	}
	for _, name := range accepted {
		lake := filepath.Join(t.TempDir(), name)
		if err := os.Rename(makeKnownLake(t), lake); err != nil {
			t.Fatal(err)
		}
		if err := CheckLakePath(lake); err != nil {
			t.Error(err)
		}
		if err := writeCatalog(lake); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Chdir(lake)
			checkCatalog(t, CatalogFile, "slowdowns", "flows")
		})
		db, err := tryOpen(t, lake, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := sqlCSV(t, db, "SELECT count(*) AS n FROM slowdowns_all")
		if got != "n\n18\n" {
			t.Errorf("%s: %s", name, got)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"a*", "a?access_mode=read_only", "[a", "a]", `a\b`, "a,b", "a%41", "a\nb",
		"a\x7f", "a\xff"} {
		lake := filepath.Join(t.TempDir(), bad)
		notYet := CheckLakePath(filepath.Join(lake, "deeper", "still"))
		if err := os.Mkdir(lake, 0o755); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(lake, link); err != nil {
			t.Fatal(err)
		}
		_, open := tryOpen(t, lake, Options{})
		for way, err := range map[string]error{"not yet there": notYet, "check": CheckLakePath(lake),
			"link": CheckLakePath(link), "below a link": CheckLakePath(filepath.Join(link, "new")), "open": open,
			"catalog": writeCatalog(lake)} {
			if err == nil || !strings.Contains(err.Error(), "lake") || !strings.Contains(err.Error(), "its path") {
				t.Errorf("%q, %s: %v", bad, way, err)
			}
		}
	}
}

// People copy lakes to other machines and directories. One statement must be enough to read the copy
// there, and the copy must not read the files of the original.
func TestViewsOfAMovedLake(t *testing.T) {
	lake := makeKnownLake(t)
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "it's moved")
	if err := os.Rename(lake, moved); err != nil {
		t.Fatal(err)
	}
	db := openCatalog(t, filepath.Join(moved, CatalogFile))
	defer db.Close()
	db.SetMaxOpenConns(1) // variables belong to a connection
	if _, err := db.Exec("FROM slowdowns"); err == nil {
		t.Error("views of the lake's old place can be read")
	}
	if _, err := db.Exec("SET VARIABLE lake = " + duckdb.Quote(moved)); err != nil {
		t.Fatal(err)
	}
	const want = 4 + 7 + 7 // as in knownIDs
	got := count(t, db, "SELECT count(*) FROM slowdowns_all")
	if got != want {
		t.Errorf("%d rows after SET VARIABLE lake, want %d", got, want)
	}
}

// View link_names has the names of topology.Network.LinkName, also if members of a LAG have no port, or the
// same. TestNamesOfMembers of package topology has the same network. If answers and warnings named a member
// differently, or two members alike, nobody could tell which one is loaded.
func TestNamesOfLinks(t *testing.T) {
	connector, err := driver.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }() // in memory
	for _, text := range []string{
		`CREATE TABLE nodes AS SELECT * FROM (VALUES ('x', 2, 'switch 2'), ('x', 4, 'switch 4'),
			('y', 2, 'other'), ('y', 4, 'switch 4')) AS v(scenario, node_id, name)`,
		`CREATE TABLE links AS SELECT * FROM (VALUES ('x', 4, 2, 4, 'p1', 'q'), ('x', 5, 4, 2, 'q', 'p1'),
			('x', 12, 2, 4, 'p2', 'q'), ('x', 13, 4, 2, 'q', 'p2'), ('x', 14, 2, 4, NULL, 'q3'),
			('x', 15, 4, 2, 'q3', NULL), ('x', 16, 2, 4, 'p4', NULL), ('x', 17, 4, 2, NULL, 'p4'),
			('y', 4, 2, 4, 'p1', 'q'), ('y', 5, 4, 2, 'q', 'p1'))
			AS v(scenario, link_id, src_node, dst_node, src_port, dst_port)`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	got := rowsOf(t, db, "SELECT link FROM ("+linkNames().sql+") ORDER BY scenario, link_id")
	want := "switch 2 → switch 4 (p1), switch 4 → switch 2 (member 1), " +
		"switch 2 → switch 4 (p2), switch 4 → switch 2 (member 2), " +
		"switch 2 → switch 4 (member 3), switch 4 → switch 2 (q3), " +
		"switch 2 → switch 4 (p4), switch 4 → switch 2 (member 4), other → switch 4, switch 4 → other"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	cables := rowsOf(t, db, "SELECT cable, reverse_cable FROM ("+linkNames().sql+") WHERE link_id = 14")
	if cables != "switch 2:switch 4 switch 4:switch 2" {
		t.Errorf("cables %s", cables)
	}
}
