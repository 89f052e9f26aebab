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
