// Package columns reads and builds the record batches of the lake's tables (schema.Batches, schema.Sink)
// without copying values one by one.
//
// Reading and writing: the rows of a table are structs with a field for each column (Each, Table).
//
//	type flow struct {
//		Size int64 `col:"size_bytes"`
//	}
//	err := columns.Each(in, func(f *flow) error { … })
//
// A small table is built of maps (Rows), and single columns of a batch are Go slices or Arrow arrays (Int64s, Named).
//
// Views of a column that the batch lacks, or that has another type, panic: readers check a file's columns
// against its table before they return a batch.
package columns
