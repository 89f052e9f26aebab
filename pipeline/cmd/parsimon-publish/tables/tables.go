// Package tables maps tables of a lake to Iceberg tables.
//
//	table of package schema ─► columns with ids, partition columns, order of the rows
//	data file of the lake   ─► entry of a manifest: partition, bounds and counts of columns (from the footer)
//
// A Parquet file of a lake has no field ids. Readers find its columns by name, with the name mapping that
// every published table has. The partition columns scenario and variant need not be in the file.
package tables

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"parsimon/schema"
)

// A Published is an Iceberg table that is made of files of one table of a lake.
type Published struct {
	Name  string
	Table schema.Table
	// AllVariants is set if the table has the rows of all variants of a scenario. Otherwise, if the lake's table
	// has answers, it has those of one variant.
	AllVariants bool
}

// byDefault lists the tables that people query. Tables that only the next stage of an estimate reads are not
// published.
var byDefault = []schema.Table{
	schema.Nodes, schema.Links, schema.LinkLoads, schema.JobFlows,
	schema.Slowdowns, schema.LinkStats, schema.LinkClasses, schema.LinkSlots, schema.HopContributions,
	schema.Intervals, schema.Warnings, schema.Windows, schema.SampledSlowdowns,
	schema.MessageSizes, schema.Validations, schema.ValidationLinks,
	schema.Comparisons, schema.ComparisonLinks, schema.Sweeps, schema.SweepRuns,
}

// A Selection chooses tables besides those of byDefault.
type Selection struct {
	Flows       bool // the flows of a scenario and what belongs to them
	AllVariants bool // a second table of each table of answers, with all variants
}

// Of returns the tables to publish. The table of scenarios is the last one, so that a scenario that a reader
// finds there has all its rows.
func Of(s Selection) (all []Published) {
	chosen := slices.Clone(byDefault)
	if s.Flows {
		chosen = append(chosen, schema.Flows, schema.Dependencies, schema.Rejects)
	}
	for _, t := range append(chosen, schema.Scenarios) {
		all = append(all, Published{Name: t.Name, Table: t})
		if s.AllVariants && t.OfAnswer() {
			all = append(all, Published{Name: t.Name + schema.AllVariants, Table: t, AllVariants: true})
		}
	}
	return all
}

// Partitions returns the names of the partition columns.
func (p Published) Partitions() []string {
	if p.Table.Variant {
		return []string{"scenario", "variant"}
	}
	return []string{"scenario"}
}

// docs describes the partition columns.
var docs = map[string]string{
	"scenario": "id of the scenario",
	"variant":  "how the estimate was made",
}

// Schema returns the columns. All are optional, so that a later version of the lake may leave one out. The
// ids of a table that exists are those of the table, not these.
func (p Published) Schema() (*iceberg.Schema, error) {
	var fields []iceberg.NestedField
	id := 0
	next := func() int {
		id++
		return id
	}
	for _, name := range p.Partitions() {
		if !hasColumn(p.Table, name) {
			fields = append(fields, iceberg.NestedField{ID: next(), Name: name, Type: iceberg.PrimitiveTypes.String,
				Doc: docs[name]})
		}
	}
	for _, c := range p.Table.Columns {
		field := iceberg.NestedField{ID: next(), Name: c.Name, Doc: describe(c)}
		var err error
		if field.Type, err = typeOf(c.Type, next); err != nil {
			return nil, fmt.Errorf("table %s, column %s: %w", p.Name, c.Name, err)
		}
		fields = append(fields, field)
	}
	for _, f := range p.fileColumns() {
		f.ID = next()
		fields = append(fields, f)
	}
	return iceberg.NewSchema(0, fields...), nil
}

// fileColumns returns the columns that files of the lake have beside those of the table (schema.ScenarioKey).
func (p Published) fileColumns() (all []iceberg.NestedField) {
	partitions := map[string]string{schema.ScenarioKey: "scenario", schema.VariantKey: "variant"}
	for _, column := range p.Table.ScenarioKeys() {
		all = append(all, iceberg.NestedField{
			Name: column, Type: iceberg.PrimitiveTypes.String, Doc: docs[partitions[column]],
		})
	}
	if p.Table.HasStart() {
		all = append(all, iceberg.NestedField{
			Name: schema.StartTime, Type: iceberg.PrimitiveTypes.TimestampTz, Doc: "start_ns as a time of UTC",
		}, iceberg.NestedField{
			Name: schema.StartDay, Type: iceberg.PrimitiveTypes.Date, Doc: "day of start_time",
		})
	}
	return all
}

func hasColumn(t schema.Table, name string) bool {
	return slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
}

func describe(c schema.Column) string {
	if c.Unit == "" {
		return c.Doc
	}
	return c.Doc + " [" + c.Unit + "]"
}

// typeOf returns the Iceberg type of a column. next returns a new field id.
func typeOf(t arrow.DataType, next func() int) (iceberg.Type, error) {
	switch t := t.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type:
		return iceberg.PrimitiveTypes.Int32, nil
	case *arrow.Int64Type:
		return iceberg.PrimitiveTypes.Int64, nil
	case *arrow.Float64Type:
		return iceberg.PrimitiveTypes.Float64, nil
	case *arrow.StringType:
		return iceberg.PrimitiveTypes.String, nil
	case *arrow.BooleanType:
		return iceberg.PrimitiveTypes.Bool, nil
	case *arrow.BinaryType:
		return iceberg.PrimitiveTypes.Binary, nil
	case *arrow.Date32Type:
		return iceberg.PrimitiveTypes.Date, nil
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond && t.TimeZone != "" {
			return iceberg.PrimitiveTypes.TimestampTz, nil
		}
		if t.Unit == arrow.Microsecond {
			return iceberg.PrimitiveTypes.Timestamp, nil
		}
	case *arrow.ListType:
		id := next()
		element, err := typeOf(t.Elem(), next)
		return &iceberg.ListType{ElementID: id, Element: element, ElementRequired: !t.ElemField().Nullable}, err
	}
	return nil, fmt.Errorf("version 2 of Iceberg has no type for %s", t)
}

// Spec returns the partition spec over the columns of a schema.
func (p Published) Spec(s *iceberg.Schema) (*iceberg.PartitionSpec, error) {
	var fields []iceberg.PartitionField
	for i, name := range p.Partitions() {
		column, ok := s.FindFieldByName(name)
		if !ok {
			return nil, fmt.Errorf("table %s has no column %s", p.Name, name)
		}
		fields = append(fields, iceberg.PartitionField{SourceIDs: []int{column.ID},
			FieldID: firstPartitionField + i,
			Name:    name, Transform: iceberg.IdentityTransform{}})
	}
	spec := iceberg.NewPartitionSpec(fields...)
	return &spec, nil
}

// firstPartitionField is the smallest id of a partition field.
const firstPartitionField = 1000

// Order returns the order of the rows within a file.
func (p Published) Order(s *iceberg.Schema) (table.SortOrder, error) {
	if len(p.Table.Sort) == 0 {
		return table.UnsortedSortOrder, nil
	}
	var fields []table.SortField
	for _, name := range p.Table.Sort {
		column, ok := s.FindFieldByName(name)
		if !ok {
			return table.UnsortedSortOrder, fmt.Errorf("table %s has no column %s", p.Name, name)
		}
		fields = append(fields, table.SortField{SourceIDs: []int{column.ID}, Transform: iceberg.IdentityTransform{},
			Direction: table.SortASC, NullOrder: table.NullsFirst})
	}
	return table.NewSortOrder(1, fields)
}

// Properties returns the properties of a new table.
func (p Published) Properties(s *iceberg.Schema) (iceberg.Properties, error) {
	mapping, err := json.Marshal(s.NameMapping())
	return iceberg.Properties{
		table.DefaultNameMappingKey: string(mapping),
		table.PropertyFormatVersion: "2",
		"comment":                   p.Table.Doc,
		// Old metadata files are removed by the commits that follow.
		table.MetadataDeleteAfterCommitEnabledKey: "true",
		table.MetadataPreviousVersionsMaxKey:      "100",
	}, err
}

// A File is a file of the lake that was copied to a published table.
type File struct {
	Path       string // full, where it was copied to
	Bytes      int64
	Partition  map[string]string // values of the partition columns
	ReadSeeker interface {
		io.ReaderAt
		io.ReadSeeker
	}
}

// DataFile returns the entry of a manifest for a file. It reads the footer of the file.
func DataFile(t *table.Table, f File) (iceberg.DataFile, error) {
	reader, err := file.NewParquetReader(f.ReadSeeker)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }() // only read
	values := map[int]any{}
	spec := t.Spec()
	for _, field := range spec.Fields() {
		values[field.FieldID] = f.Partition[field.Name]
	}
	return table.DataFileFromMetadata(table.DataFileArgs{
		Schema: t.Schema(), Spec: spec, Format: iceberg.ParquetFile, Metadata: reader.MetaData(),
		FilePath: f.Path, FileSize: f.Bytes, Content: iceberg.EntryContentData, PartitionValues: values,
		SortOrderID: t.SortOrder().OrderID(), Properties: t.Properties(), FormatVersion: t.Metadata().Version(),
	})
}
