package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
)

// add reads the new files, makes the flows of all records, and commits.
func (in *ingestion) add(ctx context.Context, fresh []Source) (err error) {
	ingester, err := ingest.NewIngester(ctx, in.net, in.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.Close()) }()
	in.Progress.Begin("ingest", "files", int64(len(fresh)))
	for i := range fresh {
		if err = in.addFile(ctx, ingester, &fresh[i]); err != nil {
			break
		}
		in.Progress.Add(1)
	}
	in.Progress.End()
	in.report.Notes = ingester.Notes
	if err != nil {
		return err
	}
	in.state.Sources = append(in.state.Sources, fresh...)
	slices.SortFunc(in.state.Sources, func(a, b Source) int { return cmp.Compare(a.N, b.N) })
	if err := in.checkRejects(); err != nil { // before the long work
		return err
	}
	in.Progress.Begin("merge", "flows", 0)
	err = in.merge(ctx, ingester)
	in.Progress.End()
	if err != nil {
		return err
	}
	if err := in.checkRejects(); err != nil {
		return err
	}
	if in.state.Merge.Flows == 0 {
		return in.noFlows()
	}
	return in.session.WriteStateDurably(in.place().WorkloadPath(), in.state)
}

// noFlows is the error of a workload whose rows are all rejected, such as the log of an idle interface.
func (in *ingestion) noFlows() error {
	rows, _, setAside, reasons := in.state.counts()
	why := make([]string, len(reasons))
	for i, r := range reasons {
		why[i] = fmt.Sprintf("%d × %s", r.Rows, r.Reason)
	}
	return fmt.Errorf("workload %s has no flow that can be simulated: all of its %d rows are rejected, %d of them no "+
		"flows by their own account (%s)",
		in.state.ID, rows, setAside, strings.Join(why, ", "))
}

func (in *ingestion) checkRejects() error {
	rows, rejects, setAside, reasons := in.state.counts()
	return ingest.CheckRejects("workload "+string(in.state.ID), rows, rejects, setAside, in.MaxRejects, reasons)
}

// addFile brings one file into tables records and rejects.
func (in *ingestion) addFile(ctx context.Context, ingester *ingest.Ingester, s *Source) (err error) {
	if s.FileStats, err = ingester.File(ctx, in.Mappings, s.File, s.N); err != nil {
		return err
	}
	s.Format, s.Mapping = s.FileStats.Mapping.Name, scenario.BytesDigest([]byte(s.FileStats.Mapping.Text))
	for _, held := range in.state.Sources {
		if held.Format == s.Format && held.Mapping != s.Mapping {
			return fmt.Errorf("workload %s was ingested with another mapping %s: give the new one another name",
				in.state.ID, s.Format)
		}
	}
	if s.Waits+s.ComputeSteps > 0 {
		return fmt.Errorf("%s: flows wait for others (column after): run takes such files with --flows", s.File)
	}
	p, err := in.adopt(schema.Records, s.RecordsFile, int(s.N))
	if err != nil {
		return err
	}
	s.Files = append(s.Files, p)
	if s.Rejects > 0 {
		if p, err = in.adopt(schema.Rejects, s.RejectsFile, int(s.N)); err != nil {
			return err
		}
		s.Files = append(s.Files, p)
	}
	return nil
}

// adopt writes a file that DuckDB left as data file n of a table.
func (in *ingestion) adopt(t schema.Table, file string, n int) (lake.DataFile, error) {
	w, err := in.session.Create(t, in.place().File(t, n))
	if err != nil {
		return lake.DataFile{}, err
	}
	defer w.Abandon()
	rows := parquet.OpenFile(t, file)
	if err := columns.Consume(rows, w.Write); err != nil {
		return lake.DataFile{}, err
	}
	d, err := w.Commit()
	return d, errors.Join(err, os.Remove(file))
}

// removeOthers removes the workload's data files that neither a state nor the manifest names.
func (in *ingestion) removeOthers(s *State) error {
	keep := map[string]bool{}
	m, _, err := in.session.ReadManifest(in.place())
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		keep[f.Path] = true
	}
	if s != nil {
		for _, f := range s.files() {
			keep[f.Path] = true
		}
	}
	return in.session.RemoveUnlisted(in.place(), func(path string) bool { return keep[path] })
}
