package publisher

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/lake"
	"parsimon/queries"
)

// wanted has the files that the tables should have.
type wanted struct {
	files []lakeFile
	// chosen are the scenarios whose files are compared; others stay as they are.
	chosen map[string]bool
	// known are the scenarios of the lake; nil: scenarios that are not known stay in the tables.
	known map[string]bool
}

// A lakeFile is a file of the lake, with its description in the manifests.
type lakeFile struct {
	queries.File
	data lake.DataFile
}

// wanted lists the files of the given scenarios.
func (p *Publisher) wanted(ids []lake.ScenarioID) (*wanted, error) {
	w := &wanted{chosen: map[string]bool{}}
	if p.Prune {
		known, err := Scenarios(p.Lake)
		if err != nil {
			return nil, err
		}
		w.known = map[string]bool{}
		for _, id := range known {
			w.known[string(id)] = true
		}
	}
	if len(ids) == 0 { // without scenarios, Committed returns the files of all
		return w, nil
	}
	for _, id := range ids {
		w.chosen[string(id)] = true
	}
	files, byPath, err := catalog.Committed(p.Lake, ids...)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		d := byPath[f.Path]
		if d.Rows > 0 && f.Workload == "" {
			w.files = append(w.files, lakeFile{f, d})
		}
	}
	return w, nil
}

// Scenarios lists the scenarios of a lake that are published. It omits windows of a sample, which belong to
// the scenario that they were drawn from, and scenarios that their command will delete.
func Scenarios(l *lake.Lake) (ids []lake.ScenarioID, err error) {
	all, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		s, err := pipeline.ReadSpec(l, id)
		if err != nil {
			return nil, err
		}
		if s.Windows == nil && !l.Exists(lake.Of(id).StatePath(lake.EphemeralFile)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// of returns the files of one table.
func (w *wanted) of(t tables.Published) []lakeFile {
	return slices.DeleteFunc(slices.Clone(w.files), func(f lakeFile) bool {
		return f.Table != t.Table.Name || t.Table.OfAnswer() && !t.AllVariants && !f.Answer
	})
}

// partition returns the values of the partition columns.
func (f lakeFile) partition() map[string]string {
	return map[string]string{"scenario": f.Scenario, "variant": f.Variant.String()}
}

// name returns the name of the copy of a file, without the part that distinguishes several copies:
//
//	scenario=ID/variant=NAME/part-NNNNN-DIGEST
func (f lakeFile) name() string {
	dir := "scenario=" + f.Scenario + "/"
	if !f.Variant.IsZero() {
		dir += "variant=" + f.Variant.String() + "/"
	}
	base, _, _ := strings.Cut(strings.TrimSuffix(path.Base(f.Path), ".parquet"), "~")
	return dir + base + "-" + f.data.Digest
}

var copyPattern = regexp.MustCompile(`/data/(scenario=.*/part-.*-[0-9a-f]{16})-[0-9]+\.parquet$`)

// nameOf returns the name of a file in a table; empty: this program has not made it.
func nameOf(path string) string {
	m := copyPattern.FindStringSubmatch(path)
	if m == nil {
		return ""
	}
	return m[1]
}

// difference has the files that a table lacks, and those that it should not have.
type difference struct {
	add    []lakeFile
	remove []iceberg.DataFile
}

// compare compares the current files of a table with those that are wanted.
func (p *Publisher) compare(ctx context.Context, now *table.Table, a *aim) (d difference, err error) {
	missing := map[string]lakeFile{}
	var order []string
	if a.part == everything {
		for _, f := range a.of(a.Published) {
			order = append(order, f.name())
			missing[f.name()] = f
		}
	}
	current, err := filesOf(ctx, now)
	if err != nil {
		return d, err
	}
	for _, f := range current {
		scenario, err := scenarioOf(now, f)
		if err != nil {
			return d, err
		}
		name := nameOf(f.FilePath())
		_, wantedHere := missing[name]
		switch {
		case wantedHere:
			delete(missing, name)
		case a.known != nil && !a.known[scenario], a.part == everything && a.chosen[scenario]:
			d.remove = append(d.remove, f)
		}
	}
	for _, name := range order {
		if f, ok := missing[name]; ok {
			d.add = append(d.add, f)
		}
	}
	return d, nil
}

// filesOf lists the current files of a table.
func filesOf(ctx context.Context, t *table.Table) (files []iceberg.DataFile, err error) {
	tasks, err := t.Scan().PlanFiles(ctx)
	for _, task := range tasks {
		files = append(files, task.File)
	}
	return files, err
}

// scenarioOf returns the scenario of a file.
func scenarioOf(t *table.Table, f iceberg.DataFile) (string, error) {
	spec := t.Metadata().PartitionSpecByID(int(f.SpecID()))
	if spec != nil {
		for _, field := range spec.Fields() {
			if value, ok := f.Partition()[field.FieldID].(string); ok && field.Name == "scenario" {
				return value, nil
			}
		}
	}
	return "", fmt.Errorf("file %s has no partition scenario: another program has written into the table",
		f.FilePath())
}
