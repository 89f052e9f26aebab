package pipeline

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport lists the packages of this module that a package may import. A package without an entry has the
// entry of the nearest folder above it. "x/..." stands for x and everything below it.
var mayImport = map[string][]string{
	"schema":             nil,
	"schema/columns":     {"schema", "schema/names"},
	"schema/footer":      nil,
	"schema/variant":     nil,
	"schema/tree":        {"schema/units"},
	"datasets":           nil,
	"simkernel":          nil,
	"simkernel/linkcase": {"simkernel"},
	"simkernel/network":  {"simkernel", "simkernel/network/...", "schema/together"},

	"simkernel/network/calendar":   {"simkernel"},
	"simkernel/network/faults":     {"simkernel"},
	"simkernel/network/packetset":  nil,
	"simkernel/network/partition":  nil,
	"simkernel/network/roundrobin": {"simkernel"},
	"simkernel/network/workers":    {"schema/together"},

	"stages": {"schema/...", "simkernel/...", "stages/rng", "stages/moves", "stages/topology", "stages/workload",
		"queries/duckdb"},
	"stages/ingest": {"schema/...", "stages/ingest/...", "stages/topology", "stages/workload", "queries/duckdb"},
	"stages/ingest/connections": {"schema", "schema/columns", "schema/together", "stages/ingest/extsort",
		"stages/rng", "stages/topology", "stages/workload"},
	"stages/ingest/extsort": {"schema/together"},
	"stages/rng":            nil,
	"stages/tables":         {"schema", "schema/columns", "stages/workload"},
	"stages/step": {"schema", "schema/columns", "schema/names", "simkernel/...", "stages/moves",
		"stages/topology"},
	"stages/route":      part,
	"stages/slowdown":   part,
	"stages/confidence": slices.Concat(part, []string{"schema/sizebin", "schema/together", "stages/rng"}),
	"stages/diagnose": slices.Concat(part,
		[]string{"schema/sizebin", "schema/together", "stages/route", "stages/confidence"}),
	"stages/exact": slices.Concat(part, judged, []string{"stages/moves"}),
	"stages/linksim": slices.Concat(part, []string{"schema/selection", "schema/sizebin", "schema/units",
		"stages/rng", "stages/route", "stages/exact"}),
	"stages/independent": slices.Concat(part, judged, byLinkCases, []string{"stages/rng"}),
	"stages/flow":        slices.Concat(part, judged, byLinkCases, []string{"stages/rng", "stages/confidence"}),
	"stages/estimators":  {"stages/step", "stages/independent", "stages/flow", "stages/exact"},
	"stages/method":      slices.Concat(part, []string{"stages/route", "stages/estimators"}),
	"stages/methodtest":  {"schema/...", "simkernel/...", "stages/..."},

	"queries":            {"schema/...", "queries/duckdb", "queries/format"},
	"queries/duckdb":     {"schema/names"},
	"queries/format":     {"queries/duckdb"},
	"queries/subprocess": {"schema/together", "queries/..."},

	"pipeline/text":         {"queries/format"},
	"pipeline/gate":         {"schema/names"},
	"pipeline/lake/parquet": {"schema", "schema/footer", "schema/names"},
	"pipeline/lake": {"schema", "schema/columns", "schema/footer", "schema/names", "schema/together",
		"schema/variant", "pipeline/lake/..."},
	"pipeline/engine": {"schema", "schema/names", "schema/together", "schema/units",
		"pipeline/lake"},
	"pipeline/catalog":          {"schema", "schema/variant", "pipeline/lake", "queries/..."},
	"pipeline/lake/disk":        nil,
	"pipeline/cache":            {"stages/linksim", "pipeline/lake/disk"},
	"pipeline/scenario":         {"datasets", "simkernel/...", "schema/...", "stages/..."},
	"pipeline/internal/fixture": {"schema"},
	"pipeline/internal/estimates": {"pipeline", "pipeline/scenario", "pipeline/catalog", "pipeline/lake",
		"queries/..."},
	"pipeline/report":           {"schema/...", "queries", "stages/moves"},
	"pipeline/sampling/windows": {"schema", "schema/columns", "simkernel/...", "stages/...", "pipeline/lake"},
	"pipeline/workloads":        append(below, "pipeline/scenario", "pipeline/engine", "pipeline/catalog"),
	"pipeline": append(below, "pipeline/scenario", "pipeline/engine", "pipeline/catalog", "pipeline/cache",
		"pipeline/workloads", "pipeline/sampling/windows"),
	"pipeline/summary":   append(below, "pipeline", "pipeline/engine", "pipeline/catalog"),
	"pipeline/reconcile": append(below, "pipeline", "pipeline/scenario", "pipeline/workloads"),
	"pipeline/whatif": append(below, "pipeline", "pipeline/summary", "pipeline/scenario", "pipeline/engine",
		"pipeline/reconcile", "pipeline/sampling"),
	"pipeline/bundle": append(below, "pipeline", "pipeline/workloads"),
	"pipeline/sampling": append(below, "pipeline", "pipeline/summary", "pipeline/engine",
		"pipeline/sampling/windows"),
	"pipeline/cmd": {
		"schema/...", "simkernel/...", "stages/...", "queries/...", "pipeline/...", "datasets",
	},
	// It creates inputs with these packages, and runs the program like a user. Only coverage, which needs
	// hundreds of small estimates, makes them in memory. From sampling it has Student's distribution. It reads
	// flows that no view has with DuckDB.
	"pipeline/cmd/measure": {
		"schema/...", "simkernel", "stages/...", "queries/duckdb", "pipeline/sampling", "pipeline/scenario",
		"datasets", "pipeline/cmd/measure/headline",
	},
	"pipeline/cmd/measure/headline": nil,
	"stages/topology/topologytest":  {"schema/names", "stages/topology"},
	"simkernel/kerneltest":          {"simkernel", "schema/daily"},
}

// part lists the packages that every part of the method may import.
var part = []string{
	"schema", "schema/columns", "schema/names", "simkernel/...", "stages/step", "stages/tables",
	"stages/topology",
	"stages/workload",
}

// judged lists what estimators import to compute slowdowns from delays and to assess their accuracy.
// byLinkCases lists what estimators import that run link cases.
var (
	judged      = []string{"stages/route", "stages/slowdown", "stages/diagnose"}
	byLinkCases = []string{"stages/linksim", "stages/exact"}
)

// below lists what most packages of pipeline may import.
var below = []string{
	"schema/...", "simkernel/...", "stages/...", "queries/...",
	"pipeline/lake/...", "pipeline/text", "pipeline/gate",
}

// eachSource calls do with the path of each Go file of the tree that is not a test.
func eachSource(do func(file string) error) error {
	return filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && strings.HasPrefix(name, ".") && name != ".." {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return do(file)
	})
}

// Imports follow the layers of the tree in one direction only. Test files may import more.
func TestImports(t *testing.T) {
	seen := 0
	err := eachSource(func(file string) error {
		// The separate modules are left out.
		if strings.Contains(file, "/parsimon-beam/") || strings.Contains(file, "/parsimon-publish/") {
			return nil
		}
		seen++
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator))))
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			to, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "parsimon/")
			if ours && !allowed(pkg, to) {
				t.Errorf("%s imports %s", strings.TrimPrefix(file, "../"), to)
			}
		}
		return nil
	})
	if err != nil || seen < 150 {
		t.Errorf("%d files read, %v", seen, err)
	}
}

// allowed reports whether a package may import another.
func allowed(pkg, to string) bool {
	for rule := pkg; rule != "."; rule = path.Dir(rule) {
		if may, ok := mayImport[rule]; ok {
			return slices.ContainsFunc(may, func(p string) bool {
				tree, whole := strings.CutSuffix(p, "/...")
				return to == tree || whole && strings.HasPrefix(to, tree+"/")
			})
		}
	}
	return false
}
