package ingest

import (
	"context"
	"errors"
	"path/filepath"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/topology"
)

// File reads one flow file, of any mapping, into a Parquet file of table flows, sorted by start, and writes the rows
// that cannot be simulated to another one, of table rejects. DuckDB does the work within the memory limit and spills
// to TmpDir. More rejects than Options.MaxRejects are an error.
func File(ctx context.Context, n *topology.Network, file string, o Options) (stats Stats, err error) {
	if o.Mapping == nil {
		if o.Mapping, err = DetectFormat(file); err != nil { // other names are read as CSV
			if o.Mapping, err = FormatMapping("csv"); err != nil {
				return stats, err
			}
		}
	}
	if _, err := Digest(ctx, "flow file", file); err != nil {
		return stats, err
	}
	in, err := NewIngester(ctx, n, o)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f, err := in.File(ctx, []*Mapping{o.Mapping}, file, 1)
	if err != nil {
		return stats, err
	}
	source := MergeSource{N: 1, File: file, FileStats: f}
	stats = Stats{Rows: f.Rows, SetAside: f.SetAside, Dependencies: f.Waits, ComputeSteps: f.ComputeSteps}
	if stats.MergeStats, err = in.Merge(ctx, []MergeSource{source}); err != nil {
		return stats, inFile(file, err)
	}
	if f.Waits > 0 {
		if stats.Rejects > 0 {
			return stats, inFile(file, errors.New("column after: flow ids stand in several rows, which one is meant?"))
		}
		stats.DependenciesFile = filepath.Join(o.TmpDir, "dependencies.parquet")
		if err := in.dependencies(ctx, &f, stats.FlowsFile, stats.DependenciesFile); err != nil {
			return stats, inFile(file, err)
		}
	}
	if err := in.allRejects(ctx, &stats, &f); err != nil {
		return stats, err
	}
	if err := CheckRejects(file, stats.Rows, stats.Rejects, stats.SetAside, o.MaxRejects, stats.Reasons); err != nil {
		return stats, err
	}
	stats.Notes = in.Notes
	return stats, CheckSpan("flow file "+file, stats.FirstStartNS, stats.LastStartNS)
}

// allRejects collects the rows that reading and merging refused in one file of table rejects.
func (in *Ingester) allRejects(ctx context.Context, stats *Stats, f *FileStats) error {
	var lists []string
	if f.Rejects > 0 {
		lists = append(lists, f.RejectsFile)
	}
	if stats.Rejects > 0 {
		lists = append(lists, stats.RejectsFile)
	}
	stats.Rejects += f.Rejects
	if lists == nil {
		return nil
	}
	stats.RejectsFile = filepath.Join(in.o.TmpDir, "rejects.parquet")
	stats.Reasons = AddReasons(f.Reasons, stats.Reasons)
	query := "SELECT * FROM " + duckdb.ScanParquet(lists...) + ` ORDER BY "row"`
	return in.exec(ctx, copyTo(schema.Rejects, query, stats.RejectsFile))
}
