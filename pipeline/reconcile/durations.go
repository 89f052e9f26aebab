package reconcile

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"parsimon/queries/duckdb"
)

// leastResolutions is the shortest duration that is compared, in multiples of the resolution of the log's
// times. The error of a logged duration is at most one resolution, so this is 10%.
const leastResolutions = 10

// bulkShare is the share of the logged duration below which bulk transfers of a service are too fast: the
// application limits them, not the network.
const bulkShare = 0.5

// Durations compares how long transfers last in the log and in the run.
type Durations struct {
	// File is a Parquet file with the logged durations: flow_id and fct_ns. It is empty if the log has none.
	File string `json:"-"`
	// Why is the reason for which the log has no durations. It is empty if the log has some.
	Why      string            `json:"no_durations,omitempty"`
	Services []ServiceDuration `json:"services,omitempty"`
}

// A ServiceDuration has the median durations of the transfers of a service.
type ServiceDuration struct {
	Service string `json:"service"`
	// Bulk is set for transfers of connections that the run divides (traffic model bulk). Others are whole
	// connections.
	Bulk        bool    `json:"bulk"`
	Flows       int64   `json:"flows"`
	LogNS       float64 `json:"log_ns"`
	SimulatedNS float64 `json:"simulated_ns"`
	Ratio       float64 `json:"ratio"` // median of simulated / logged
}

// TooFast reports whether bulk transfers take much less time than in the log.
func (s *ServiceDuration) TooFast() bool { return s.Bulk && s.Ratio < bulkShare }

// Remove removes the file.
func (d *Durations) Remove() error {
	if d.File == "" {
		return nil
	}
	return os.Remove(d.File)
}

//go:embed durations.sql
var durationsSQL string

// mostServices is the number of services with a row in Durations.
const mostServices = 20

// Durations finds the transfers whose duration both the log and the run have. Durations that are short
// relative to the resolution of the log are left out (durations.sql). Sampled logs state no durations.
func (l *Log) Durations(ctx context.Context, db *sql.DB) (*Durations, error) {
	var resolutionNS, samples int64
	err := db.QueryRowContext(ctx, "SELECT coalesce(max(resolution_ns), 0), coalesce(max(samples), 0) "+
		"FROM "+l.records).
		Scan(&resolutionNS, &samples)
	if err != nil {
		return nil, duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
	if samples > 0 {
		return &Durations{Why: "the log has sampled packets, which do not say how long a transfer lasted"}, nil
	}
	d := &Durations{File: filepath.Join(l.run.Executor().Session().TmpPath(), "durations.parquet")}
	query := l.expand(durationsSQL, map[string]any{"resolution_ns": resolutionNS, "least": leastResolutions})
	_, err = db.ExecContext(ctx, "COPY ("+query+") TO "+duckdb.Quote(d.File)+" (FORMAT parquet, COMPRESSION "+
		"snappy)")
	if err != nil {
		return nil, duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
	err = duckdb.Each(ctx, db, fmt.Sprintf("SELECT d.service, d.bulk, count(*), median(d.fct_ns), "+
		"median(s.fct_ns), "+
		"median(s.fct_ns / d.fct_ns) FROM %s AS d JOIN %s AS s USING (flow_id) GROUP BY ALL "+
		"ORDER BY count(*) DESC, d.service, d.bulk LIMIT "+
		"%d", duckdb.ScanParquet(d.File), l.slowdowns, mostServices),
		func(rows *sql.Rows) error {
			var s ServiceDuration
			err := rows.Scan(&s.Service, &s.Bulk, &s.Flows, &s.LogNS, &s.SimulatedNS, &s.Ratio)
			d.Services = append(d.Services, s)
			return err
		})
	if err == nil && len(d.Services) == 0 {
		d.Why = fmt.Sprintf("no simulated transfer lasts %d times as long as the resolution of the log's times, "+
			"or the "+
			"log does not say how long it lasts", leastResolutions)
	}
	return d, err
}
