// Package reconcile compares the bytes of each link over time: in a flow log, in a run of a part of it, and
// in the counters of interfaces.
//
//	workload_flows, workload_intervals ─┐
//	flows, slowdowns of the run ────────┴─ DuckDB: bytes by connection and slot ─┐
//	counters of interfaces (CSV) ────────────────────────────── Router.Path ─────┴─► validation_links
//
// The bytes of the log take the paths that the run has for their connections. Within an interval of the log,
// and within the time of a simulated flow, bytes are spread evenly.
package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/units"
	"parsimon/stages/traffic"
)

// A Log is the part of a flow log that an estimate simulates, with the tables of both.
type Log struct {
	FromNS, ToNS int64 // the part that was asked for, within the times of the log

	run       *pipeline.Estimation
	unlock    *lake.FileLock
	flows     string // SQL that reads a table
	intervals string
	records   string
	runFlows  string
	slowdowns string
}

// Open opens the flow log of an estimate and checks its intervals. It returns an error if the scenario does
// not come from a flow log, if a change scaled or moved its flows, or if the lake no longer has the workload.
// Until Close, an ingest that adds to the workload keeps the files that the Log reads.
func Open(ctx context.Context, e *pipeline.Estimation, db *sql.DB) (_ *Log, err error) {
	part, err := partOf(e)
	if err != nil {
		return nil, err
	}
	l := &Log{run: e, unlock: e.Lake.LockForReading()}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	state, found, err := workloads.Find(e.Lake, part.Digests)
	if err == nil && !found {
		err = fmt.Errorf("the lake does not have the flow log of scenario %s as the run read it: it was removed, "+
			"or "+
			"more was added to it; run the scenario again", e.Spec.Name)
	}
	if err != nil {
		return nil, err
	}
	for table, scan := range map[string]*string{
		schema.Flows.Name: &l.flows, schema.WorkloadIntervals.Name: &l.intervals, schema.Records.Name: &l.records,
	} {
		t, err := schema.ByName(table)
		if err != nil {
			return nil, err
		}
		files, err := state.Files(e.Lake, t)
		if err != nil {
			return nil, err
		}
		*scan = pipeline.ScanFiles(e.Lake, files)
	}
	if l.runFlows, err = e.Scan(schema.Flows); err != nil {
		return nil, err
	}
	if l.slowdowns, err = e.Scan(schema.Slowdowns); err != nil {
		return nil, err
	}
	return l, l.span(ctx, db, part)
}

// partOf returns the part of a workload that an estimate simulates.
func partOf(e *pipeline.Estimation) (part scenario.Part, err error) {
	part, ok, err := scenario.PartOf(e.Spec.Canonical)
	name := e.Spec.Name
	switch {
	case err != nil:
		err = fmt.Errorf("scenario %s: %w", name, err)
	case !ok:
		err = fmt.Errorf("scenario %s does not come from a flow log: truth log needs a run of an ingested "+
			"workload "+
			"(parsimon run --workload)", name)
	case !part.Profiles:
		err = fmt.Errorf("the workload of scenario %s has no bytes over time: an older version ingested it, or "+
			"its rows "+
			"are whole flows; ingest its flow logs again, and run it", name)
	case part.Changed:
		err = fmt.Errorf("the flows of scenario %s are not those of the log, because a change scaled or moved "+
			"them: "+
			"compare the scenario that it was made from", name)
	}
	return part, err
}

// Close lets ingests remove old files of the workload again.
func (l *Log) Close() { l.unlock.Close() }

// span checks the times of intervals and finds the part of the log.
func (l *Log) span(ctx context.Context, db *sql.DB, part scenario.Part) error {
	var bad, firstNS, endNS sql.NullInt64
	err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT "+
		"(SELECT min(flow_id) FROM %[1]s WHERE end_ns <= start_ns OR start_ns < 0 OR bytes < 1 OR end_ns > "+
		"%[3]d), "+
		"least((SELECT min(start_ns) FROM %[1]s), (SELECT min(start_ns) FROM %[2]s)), "+
		"greatest((SELECT max(end_ns) FROM %[1]s), (SELECT max(start_ns) + 1 FROM %[2]s))",
		l.intervals, l.flows, int64(1)<<62)).Scan(&bad, &firstNS, &endNS)
	switch {
	case err != nil:
		return duckdb.FirstLine(duckdb.OrCause(ctx, err))
	case bad.Valid:
		return fmt.Errorf("flow %d of workload_intervals has an interval that does not end after it starts, or "+
			"that "+
			"has no bytes", bad.Int64)
	case !firstNS.Valid || !endNS.Valid:
		return errors.New("the flow log has no flows")
	}
	l.FromNS = max(part.FromNS, firstNS.Int64)
	l.ToNS = min(part.ToNS, endNS.Int64)
	if l.ToNS <= l.FromNS {
		return fmt.Errorf("the flow log has no bytes between %s and "+
			"%s", units.Time(part.FromNS), units.Time(part.ToNS))
	}
	return nil
}

// expand replaces $NAME in SQL by the tables of the log and the run, and by the given values.
func (l *Log) expand(text string, values map[string]any) string {
	tables := map[string]any{
		"flows": l.flows, "intervals": l.intervals, "records": l.records, "run_flows": l.runFlows,
		"slowdowns": l.slowdowns, "whole": traffic.Whole(),
	}
	return os.Expand(text, func(key string) string {
		v, known := values[key]
		if !known {
			v, known = tables[key]
		}
		if !known {
			panic("reconcile: there is no value of " + key)
		}
		return strings.TrimSpace(fmt.Sprint(v))
	})
}
