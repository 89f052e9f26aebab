// Package lake stores tables in a directory of hive-partitioned Parquet files:
//
//	LAKE/<table>/scenario=<id>[/variant=<name>]/part-NNNNN.parquet   results
//	LAKE/<table>/workload=<id>/part-NNNNN.parquet                    ingested traces
//	LAKE/parsimon.duckdb                                             views over the tables
//	LAKE/_state/scenario=<id>[/variant=<name>]/manifest.json         data files that readers see (manifest.go)
//	LAKE/_state/scenario=<id>[/variant=<name>]/...                   done tasks; state is JSON with a digest (state.go)
//	LAKE/_tmp/scenario=<id>/                                         files that are being written
//
// A data file is written below _tmp and moved to its place when it is complete, so that a reader never sees half a
// file. Where a file has its name it gets another (part-NNNNN~1.parquet): no data file is overwritten. It counts once
// a state file names it with its rows, bytes and digest.
//
// Nothing that a lake contains is trusted. Ids that name directories are types that parse or fail (ScenarioID,
// WorkloadID, Variant names), every path below the lake is opened through os.Root, which follows no link out
// of the directory, and only regular files are read.
//
// A Lake reads. A Session, which holds a lock on one scenario or workload, writes.
package lake
