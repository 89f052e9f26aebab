package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
)

// writeWaits writes which flows of the view judged wait for which others, if there are any.
func (in *Ingester) writeWaits(ctx context.Context, n int32, stats *FileStats) error {
	file := filepath.Join(in.o.TmpDir, fmt.Sprintf("waits-%d.parquet", n))
	err := in.exec(ctx, keep(`SELECT coalesce(flow_id, "row" - 1) AS flow_id, unnest(waits_for) AS after_flow_id,
coalesce(whole(delay_ns), 0) AS delay_ns FROM judged WHERE reason IS NULL AND after IS NOT NULL`, file))
	if err != nil {
		return err
	}
	err = in.query(ctx, "SELECT (SELECT count(*) FROM "+duckdb.ScanParquet(file)+"), (SELECT count(*) FROM "+
		duckdb.ScanParquet(stats.RecordsFile)+" WHERE size_bytes = 0)", &stats.Waits, &stats.ComputeSteps)
	stats.WaitsFile = file
	return err
}

// dependencies writes table dependencies of the flows of a file. What a flow waits for must be a flow of the file, and
// no flow may wait for itself, over others or not.
func (in *Ingester) dependencies(ctx context.Context, f *FileStats, flowsFile, out string) error {
	err := in.exec(ctx, step("waits", values{"flows": duckdb.Quote(duckdb.EscapeGlob(flowsFile)),
		"waits": duckdb.ScanParquet(f.WaitsFile)}))
	if err != nil {
		return err
	}
	var wrong, backwards int64
	var example string
	err = in.query(ctx, step("wrong_waits", nil), &wrong, &example)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("column after: %s (the first of %d)%s", example, wrong, rowIDs(f))
	}
	if err == nil {
		err = in.exec(ctx, copyTo(schema.Dependencies, "SELECT * FROM waits ORDER BY flow_row, after_row", out))
	}
	if err == nil {
		err = in.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(out)+" WHERE after_row > flow_row", &backwards)
	}
	if err != nil || backwards == 0 { // in the order of the rows there is no cycle
		return err
	}
	if err = in.checkCycles(ctx, out); err != nil {
		err = fmt.Errorf("%w%s", err, rowIDs(f))
	}
	return err
}

// rowIDs says what flow ids are where the rows of a file have none.
func rowIDs(f *FileStats) string {
	if f.AnyFlowID {
		return ""
	}
	return "; without column flow_id, ids are the numbers of the rows, from 0"
}

// checkCycles returns an error that names the flows of a cycle, if there is one. It holds the dependencies in memory.
func (in *Ingester) checkCycles(ctx context.Context, file string) error {
	waits := map[int64][]int64{} // by flow: for what it waits and what is not followed yet
	var flows []int64
	err := in.each(ctx, "SELECT flow_id, after_flow_id FROM "+duckdb.ScanParquet(file)+" ORDER BY flow_row, after_row",
		func(rows *sql.Rows) error {
			var flow, of int64
			err := rows.Scan(&flow, &of)
			if waits[flow] == nil {
				flows = append(flows, flow)
			}
			waits[flow] = append(waits[flow], of)
			return err
		})
	if err != nil {
		return err
	}
	const onPath, done = 1, 2
	state := map[int64]int{}
	for _, flow := range flows { // depth first
		for path := []int64{flow}; len(path) > 0; {
			last := path[len(path)-1]
			if len(waits[last]) == 0 {
				state[last], path = done, path[:len(path)-1]
				continue
			}
			next := waits[last][0]
			state[last], waits[last] = onPath, waits[last][1:]
			if state[next] == onPath {
				cycle := path[slices.Index(path, next):]
				flows := names.Of(append(slices.Clone(cycle[:min(len(cycle), 20)]), next),
					func(flow int64) string { return fmt.Sprint(flow) })
				return fmt.Errorf("column after: %d flows wait for each other: %s", len(cycle), strings.Join(flows, " after "))
			}
			if state[next] != done {
				path = append(path, next)
			}
		}
	}
	return nil
}
