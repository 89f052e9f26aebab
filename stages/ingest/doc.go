// Package ingest turns traces of production networks into flows: files in several formats, whose rows are flows or
// records of flow logs, with addresses instead of hosts. Every row is accounted for.
//
//	source file ─ stage ─► rows with numbers, as text
//	                │ Mapping: one SELECT                     hosts, labels
//	                ▼                                             │
//	              typed columns ─ judge ◄────────────────────────┘
//	                │            │
//	                ▼            ▼
//	           table records   table rejects, with reasons     rows = records + rejects       (Ingester.File)
//	                │
//	                ▼ one per connection and burst, starts drawn within the resolution of the log
//	           table flows     table rejects                   records = flows + merged + rejects (Ingester.Merge)
//
// File does both for a single flow file. A mapping is one SQL file: the built-in ones are in mappings, and
// parseMapping documents the format. DuckDB does the work, within a memory limit, and spills to Options.TmpDir,
// where the results are left as Parquet files.
package ingest
