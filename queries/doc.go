// Package queries answers questions about a lake in SQL: a library of questions, the catalog of views that they
// read, and a sandbox in which a user's own SELECT can read the lake and nothing else.
//
//	data files ([]File) ─→ view per table ─→ intervals_by_group, size_bins ─→ view per question
//	                                  └──────────────┬──────────────────────────┘
//	                        Open: DB, in memory, locked to the lake
//	                        WriteCatalog: LAKE/parsimon.duckdb, for DuckDB itself
//	                                  │
//	              Run(question, parameters)   SQL(text), Write(text) ─→ checkTree ─→ checkType
//	                                  └───────┬────────────┘    └─→ Options.Output, in a form of format.Names
//	                                    format.Rows
//
// # Questions
//
// A question is one file NAME.sql in this folder: a header with its description and parameters, and one SELECT.
// Adding the file is all that the program needs (the tests also need its answer, questions_test.go). Every
// question has the parameters scenario and variant. Without scenario the answer has separate rows for each scenario of
// the lake. Without variant it is about the answer of each scenario (MarkAnswers), as the views of the tables are; with
// one, the question reads the views of all variants, whose names end with _all. The catalog has a view of the same
// name for each question, with the defaults of its parameters. A condition on scenario or variant around such a view
// reaches the scans, so that other files are not opened. The exceptions are p99_links and tail_budget, which pass a
// list of flows between two scans: only their parameters have that effect. A range of start_ns skips files and row
// groups outside it.
//
// # Percentiles
//
// Percentiles are exact: linear interpolation between the two nearest values (type 7 of Hyndman and Fan,
// "Sample quantiles in statistical packages", 1996), which is also the result of DuckDB's quantile_cont,
// numpy.percentile, pandas, and polars with "linear". The macro percentiles computes them in memory that hardly
// grows with the number of flows (percentiles.go). The questions by rack, pair of racks and link, and
// error_by_service, use quantile_cont, which holds 8 to 16 bytes per flow.
//
// # Sandbox
//
// A user's statement must be a single SELECT, by the statement type that DuckDB reports and by its parse tree:
// only listed table functions may occur, and every path must be an absolute one inside the lake. DuckDB itself is
// locked to the folder of the lake. A lake with symbolic links that lead outside is not opened. Limits of memory
// that DuckDB does not count, and of time, are those of package queries/subprocess.
package queries
