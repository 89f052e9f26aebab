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
// Writing: slices become columns, and columns become one batch of a table, in the table's order of columns.
//
//	err := columns.Write(out, schema.SenderFCTs, len(row), columns.Of(row), columns.Of(fct), columns.Of(ideal))
//
//	view of a batch   Int16s Int32s Int64s Float64s Text Bytes, Named for other types
//	column of values  Of Strings Bools False, Binary.Of for byte strings in an Arena
//
// Views of a column that the batch lacks, or that has another type, panic: readers check a file's columns
// against its table before they return a batch.
package columns
