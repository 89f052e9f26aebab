// Package schema defines the tables of a lake, with their columns, units, keys, sort orders and partitions,
// and the streams of record batches that stages pass to each other. GLOSSARY.md defines the terms.
//
//	LAKE/TABLE/scenario=ID/part-NNNNN.parquet                   input            tables_scenario.go
//	LAKE/TABLE/scenario=ID/variant=NAME/part-NNNNN.parquet      method           tables_method.go
//	                                                            results          tables_answers.go
//	                                                            comparisons      tables_compare.go
//	LAKE/FOLDER/workload=ID/part-NNNNN.parquet                  ingested traces  tables_workload.go
//
// Only stages of a running estimate read the temporary tables of the method.
//
// Names of columns end with their unit: _ns, _bytes, _bps. Times are integers. The package imports no other
// package of this module.
package schema

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
)

// Version is the version of the tables and manifests of a lake. It is raised whenever a column is added or
// removed, or changes its name, type or meaning. The metadata of every Parquet file has it.
const Version = 22

// VersionKey and TableKey are the keys of Version and of the table's name in Parquet and Arrow metadata.
const (
	VersionKey = "parsimon.schema_version"
	TableKey   = "parsimon.table"
)

// Names of columns that the files of a table have beside Columns. The views have scenario, variant and
// workload instead, and the paths have them, too. Readers that take a folder NAME=VALUE for a column of
// type category refuse a file with a column of the same name.
const (
	ScenarioKey = "scenario_id"
	VariantKey  = "variant_name"
	WorkloadKey = "workload_id"
	StartTime   = "start_time" // start_ns as a timestamp in microseconds
	StartDay    = "start_day"  // the day of start_time, as a date
)

// ScenarioKeys returns which of ScenarioKey and VariantKey the files of a scenario have.
func (t Table) ScenarioKeys() []string {
	switch {
	case t.Temporary || t.Shared:
		return nil
	case t.Variant:
		return []string{ScenarioKey, VariantKey}
	case t.Name == Scenarios.Name: // it has the column anyway
		return nil
	}
	return []string{ScenarioKey}
}

// HasStart reports whether files of the table have columns StartTime and StartDay. Both are computed from
// start_ns, in UTC from 1970. Table hops has none: it repeats the start of a flow at each of its hops.
func (t Table) HasStart() bool {
	return !t.Temporary && t.Name != Hops.Name &&
		slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == "start_ns" })
}

// Column is one column of a table. Unit is empty for ids, counts, labels and ratios.
type Column struct {
	Name     string         `json:"name"`
	Type     arrow.DataType `json:"-"`
	Nullable bool           `json:"nullable"`
	Unit     string         `json:"unit,omitempty"`
	Doc      string         `json:"doc"`
}

// Table is one table of a lake.
type Table struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	// Grain is what one row describes.
	Grain string `json:"grain"`
	// Key columns identify a row within a scenario, and within a variant if Variant is set.
	Key []string `json:"key"`
	// Sort is the order of the rows within one file. If it is empty, the order has no meaning.
	Sort []string `json:"sort"`
	// Temporary is set for tables that stages of an estimate exchange. They have no view, and are removed when
	// no stage needs them any longer.
	Temporary bool `json:"-"`
	// Shared is set if scenarios share the files of their base or workload by hard links, so that no
	// column can name the scenario.
	Shared bool `json:"-"`
	// Published is set if a command writes the table, not a stage of an estimate.
	Published bool `json:"-"`
	// Variant is set if the rows depend on how an estimate was made. Such a table is partitioned by scenario and
	// variant.
	Variant bool `json:"-"`
	// Scope is whether the table is partitioned by scenario, by workload, or exists for both.
	Scope   Scope    `json:"-"`
	Columns []Column `json:"columns"`
}

// Scope is what the files of a table belong to.
type Scope int

// The scopes of tables. A table of both scopes has two views: the view for scenarios has the name of the
// table, the view for workloads has the prefix workload_.
const (
	OfScenario Scope = iota
	OfBoth
	OfWorkload
)

// Short names of the types of columns.
var (
	i16 = arrow.PrimitiveTypes.Int16
	i32 = arrow.PrimitiveTypes.Int32
	i64 = arrow.PrimitiveTypes.Int64
	f64 = arrow.PrimitiveTypes.Float64
	str = arrow.BinaryTypes.String
	boo = arrow.FixedWidthTypes.Boolean
	bin = arrow.BinaryTypes.Binary
)

// View is a table in SQL: the files of one scope, with the columns of the table and one column for each
// partition.
type View struct {
	Name string
	// Hive has the names of the partition columns in the order of the folders NAME=VALUE in the path of a file:
	// scenario, or scenario and variant, or workload.
	Hive []string
	// Answer is set if the view has one variant of each scenario: its answer, the variant of its last run.
	Answer bool
}

// AllVariants is the suffix of the names of views that have all variants of each scenario.
const AllVariants = "_all"

// OfAnswer reports whether the view with the table's name has one variant of each scenario. Tables that
// commands publish name the estimates that they compare, and the tables of whole-network simulations are not
// estimates.
func (t Table) OfAnswer() bool {
	return t.Variant && !t.Temporary && !t.Published && t.Name != ExactFCTs.Name && t.Name != ExactHops.Name
}

// workloadPrefix begins the names of folders and views with the rows of workloads, if the table also
// exists for scenarios.
const workloadPrefix = "workload_"

// WorkloadName returns the name of the folder, and of the view, that has the table's rows of workloads. It
// is not the folder of the rows of scenarios, because readers expect the same NAME=VALUE folders in all of
// a table.
func (t Table) WorkloadName() string {
	if t.Scope == OfBoth {
		return workloadPrefix + t.Name
	}
	return t.Name
}

// Folders returns the names of all folders of the table.
func (t Table) Folders() []string {
	if t.Scope == OfBoth {
		return []string{t.Name, t.WorkloadName()}
	}
	return []string{t.Name}
}

// Views returns the views of the table: one for each of its scopes, and none if it is temporary. If OfAnswer
// is true, there is a view of the answers and one of all variants.
func (t Table) Views() []View {
	if t.Temporary {
		return nil
	}
	hive := []string{"scenario"}
	workload := []string{"workload"}
	if t.Variant {
		hive = append(hive, "variant")
	}
	switch {
	case t.OfAnswer():
		return []View{{t.Name, hive, true}, {t.Name + AllVariants, hive, false}}
	case t.Scope == OfWorkload:
		return []View{{t.Name, workload, false}}
	case t.Scope == OfBoth:
		return []View{{t.Name, hive, false}, {t.WorkloadName(), workload, false}}
	}
	return []View{{t.Name, hive, false}}
}

// Arrow returns the Arrow schema of the table. Its metadata has the name of the table and Version.
func (t Table) Arrow() *arrow.Schema {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: c.Nullable}
	}
	md := arrow.NewMetadata([]string{VersionKey, TableKey}, []string{strconv.Itoa(Version), t.Name})
	return arrow.NewSchema(fields, &md)
}

// Index returns the position of a column. It panics if the table has no such column. Names of columns are
// constants of the program, never input.
func (t Table) Index(column string) int {
	for i, c := range t.Columns {
		if c.Name == column {
			return i
		}
	}
	panic("schema: table " + t.Name + " has no column " + column)
}

// Select returns columns of the table.
func (t Table) Select(names ...string) (columns []Column) {
	for _, name := range names {
		columns = append(columns, t.Columns[t.Index(name)])
	}
	return columns
}

// Tables returns all tables of a lake.
func Tables() []Table {
	return []Table{
		Scenarios, Nodes, Links, Flows, Dependencies, JobFlows, Rejects, Hops, FlowPaths, LinkLoads, LinkClusters,
		LinkStats, LinkClasses, LinkSlots, DelayBuckets, HopObservations, Feedback, SenderFeedback, SenderFCTs,
		CaseSlowdowns, HopContributions, Slowdowns, Intervals, Warnings, Windows, SampledSlowdowns, MessageSizes,
		ExactFCTs, ExactHops, Validations, ValidationLinks, Workloads, Records, WorkloadIntervals,
		Comparisons, ComparisonLinks, Sweeps, SweepRuns,
	}
}

// ByName returns the table of that name.
func ByName(name string) (Table, error) {
	for _, t := range Tables() {
		if t.Name == name {
			return t, nil
		}
	}
	return Table{}, fmt.Errorf("no table %q in the lake", name)
}

// ByFolder returns the table that has a folder of that name.
func ByFolder(folder string) (Table, error) {
	for _, t := range Tables() {
		if slices.Contains(t.Folders(), folder) {
			return t, nil
		}
	}
	return Table{}, fmt.Errorf("no table %q in the lake", folder)
}

// Batches is a stream of record batches of one table.
//
//   - Next returns the next batch, or io.EOF after the last one. The batch has at least the given columns, or
//     all columns if none are given, and is never empty. After an error, Next returns the same error.
//   - The caller owns a returned batch and releases it. Its columns are valid until then.
//   - One goroutine at a time uses a stream. Close may be called once, at any time, and frees the resources
//     of the stream. Batches that were returned before stay valid.
type Batches interface {
	Next(columns ...string) (arrow.Record, error)
	Close() error
}

// Sink accepts the record batches of one table, in order. The caller owns the batch; Write does not retain
// it. One goroutine at a time uses a sink.
type Sink interface {
	Write(arrow.Record) error
}

// A SinkFile is a file that accepts batches. Close completes it.
type SinkFile interface {
	Sink
	Close() error
}
