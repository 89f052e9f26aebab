// Package queries is the SQL side of the lake: one question per .sql file, the catalog of views,
// a sandbox to run them and other people's SELECTs in, and the formats answers come in.
//
// Every question has the parameters scenario and variant, and an answer names both in its first
// columns. Left empty they mean ALL scenarios and variants of the lake, each on its own rows and
// never mixed, so that an answer is right without knowing what else the lake holds. The views of
// the same names in the catalog are the questions with the defaults of their parameters; a WHERE
// on scenario or variant around such a view reaches the file scan and prunes files (but for
// p99_links and tail_budget, which go by way of a list of the tail: their parameters prune). A window
// of start_ns skips the files and row groups outside it.
//
// A percentile is what DuckDB's quantile_cont gives everywhere: exact, from all values, with linear
// interpolation between the two nearest (Hyndman and Fan's type 7), which is also what
// numpy.percentile, pandas and polars' "linear" compute from the same Parquet files. Where groups
// are large the catalog's macro percentiles finds it (see percentiles.go), in memory that does not grow with the
// flows; questions by rack, pair of racks, or hot link, and error_by_service, use quantile_cont itself,
// which holds 8 to 16 bytes for each of their flows.
//
// The borders of the size bins stand in one place, sizeBins; the view size_bins and the macro size_bin_of
// are made from them.
//
// The sandbox has four walls. A statement must be one SELECT: by DuckDB's own prepared-statement
// type, and by its parser's tree, in which only table functions known to be harmless may occur
// and every path must be a clean absolute one inside the lake (see judge.go, which also says what
// the first wall alone lets through). The engine is locked to the lake with allowed_directories,
// enable_external_access=false and lock_configuration. A lake with symbolic links that lead out of
// it is not opened.
//
// The package imports nothing of ours but schema.
package queries
