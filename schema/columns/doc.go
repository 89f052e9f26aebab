// Package columns reads and builds the record batches of the lake's tables (schema.Batches, schema.Sink)
// without copying values one by one.
//
// Reading: a batch's columns are Go slices or Arrow arrays, found by name.
//
//	err := columns.ForEach(in, func(rec arrow.Record) error {
//		sizes := columns.Int64s(rec, "size_bytes") // valid until the batch is released
//		…
//	})
//
// Writing: rows of a struct become batches of a large table (Table), maps those of a small one (Rows).
//
// Views of a column that the batch lacks, or that has another type, panic: readers check a file's columns
// against its table before they return a batch.
package columns
