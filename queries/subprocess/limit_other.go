//go:build !linux

package subprocess

// limitMemory does nothing: DuckDB's own limit is the only one.
func limitMemory(int64) error { return nil }
