// Package schema defines the tables of a lake (columns, units, keys, sort orders and partitions) and the streams of
// record batches that stages pass to each other. GLOSSARY.md defines the terms.
//
//	LAKE/TABLE/scenario=ID/part-NNNNN.parquet                   input            tables_scenario.go
//	LAKE/TABLE/scenario=ID/variant=NAME/part-NNNNN.parquet      method           tables_method.go
//	                                                            results          tables_answers.go
//	                                                            comparisons      tables_compare.go
//	LAKE/TABLE/workload=ID/part-NNNNN.parquet                   ingested traces  tables_workload.go
//
// Only the stages of a running estimate read the temporary tables of the method.
//
// Names of columns end in their unit: _ns, _bytes, _bps. Times are integers. The package imports no other package of
// this module.
package schema

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
)

// Version is the version of the tables of a lake, and of its manifests. It changes whenever a column is added or
// removed, or changes its name, type or meaning. Every Parquet file has it in its metadata.
const Version = 15

// VersionKey and TableKey are the keys of Version and of the table's name in Parquet and Arrow metadata.
const (
	VersionKey = "parsimon.schema_version"
	TableKey   = "parsimon.table"
)

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
	// Grain says what one row is.
	Grain string `json:"grain"`
	// Key columns identify a row within a scenario, and within a variant if Variant is set.
	Key []string `json:"key"`
	// Sort is the order of the rows within one file. Empty means that the order has no meaning.
	Sort []string `json:"sort"`
	// Temporary is set for tables that only the stages of an estimate exchange. They have no view,
	// and are removed when no stage needs them any more.
	Temporary bool `json:"-"`
	// Published is set if a command writes the table, not a stage of an estimate.
	Published bool `json:"-"`
	// Variant is set if the rows depend on how an estimate was made. Such a table is partitioned by
	// variant, below scenario.
	Variant bool `json:"-"`
	// Scope says whether the table is partitioned by scenario, by workload, or exists for both.
	Scope   Scope    `json:"-"`
	Columns []Column `json:"columns"`
}

// Scope says what the files of a table belong to.
type Scope int

// The scopes of tables. A table of both scopes has two views: that of scenarios has the table's name, that of
// workloads has the prefix workload_.
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

// View is a table as SQL sees it: the files of one scope, with the columns of the table and one column for
// each partition.
type View struct {
	Name string
	// Hive are the names of the partition columns, in the order of the folders NAME=VALUE in a file's
	// path: scenario, or scenario and variant, or workload.
	Hive []string
	// Answer is set if the view has one variant of each scenario, its answer: the one that its last run ended with.
	Answer bool
}

// AllVariants is what follows the name of a table in the name of the view that has all variants of each scenario.
const AllVariants = "_all"

// OfAnswer reports whether a reader of the table means one variant of each scenario. Tables that a command publishes
// say themselves which estimates they are about, and those of whole-network simulations are no estimates.
func (t Table) OfAnswer() bool {
	return t.Variant && !t.Temporary && !t.Published && t.Name != ExactFCTs.Name && t.Name != ExactHops.Name
}

// Views returns the views of the table: one for each scope that it has, none if it is temporary; if it is OfAnswer, one
// of the answers and one of all variants.
func (t Table) Views() []View {
	if t.Temporary {
		return nil
	}
	hive, workload := []string{"scenario"}, []string{"workload"}
	if t.Variant {
		hive = append(hive, "variant")
	}
	switch {
	case t.OfAnswer():
		return []View{{t.Name, hive, true}, {t.Name + AllVariants, hive, false}}
	case t.Scope == OfWorkload:
		return []View{{t.Name, workload, false}}
	case t.Scope == OfBoth:
		return []View{{t.Name, hive, false}, {"workload_" + t.Name, workload, false}}
	}
	return []View{{t.Name, hive, false}}
}

// Arrow returns the Arrow schema of the table. Its metadata has the table's name and Version.
func (t Table) Arrow() *arrow.Schema {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: c.Nullable}
	}
	md := arrow.NewMetadata([]string{VersionKey, TableKey}, []string{strconv.Itoa(Version), t.Name})
	return arrow.NewSchema(fields, &md)
}

// Index returns the position of a column. It panics if the table has no such column: names of columns are
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
		Scenarios, Nodes, Links, Flows, Dependencies, JobFlows, Rejects, Hops, LinkLoads, LinkClusters, LinkStats,
		LinkClasses, LinkSlots, HopDelays, DelayBuckets, HopObservations, Feedback, SenderFeedback, SenderFCTs, CaseSlowdowns,
		HopContributions, Slowdowns, Intervals, Warnings, Windows, SampledSlowdowns,
		ExactFCTs, ExactHops, Validations, Workloads, Records,
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

// Batches is a stream of record batches of one table.
//
//   - Next returns the next batch with the given columns (all if there are none), or io.EOF after the last one. A batch
//     is never empty, and may have more columns. After an error, Next returns that error again.
//   - The caller owns a returned batch and releases it. Its columns are valid until then.
//   - A stream is used by one goroutine at a time. Close may be called at any time, once, and frees the
//     resources of the stream. Batches that were returned before stay valid.
type Batches interface {
	Next(columns ...string) (arrow.Record, error)
	Close() error
}

// Sink accepts the record batches of one table, in order. Write does not retain the batch: the caller owns it
// before and after. A sink is used by one goroutine at a time.
type Sink interface {
	Write(arrow.Record) error
}
