package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/reconcile"
	"parsimon/pipeline/text"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// TruthLog is the truth of table validations for durations in the flow log.
const TruthLog = "log"

// A LogValidation compares an estimate with the flow log that its flows come from.
type LogValidation struct {
	*Validation                      // of durations; without rows if the log states none
	Links       *reconcile.Links     `json:"links"`
	Durations   *reconcile.Durations `json:"durations"`
	Counters    *reconcile.Counters  `json:"counters,omitempty"`
	// PathsMove is set if flows of the run have several paths. Bytes are counted on the first one.
	PathsMove bool `json:"paths_move,omitempty"`
}

// LogOptions are the options of ValidateLog.
type LogOptions struct {
	SlotNS int64 // length of the slots in which the bytes of links are compared
	// Counters are a second truth for the bytes of links, unless no file is given.
	Counters reconcile.CounterOptions
}

// ValidateLog compares an estimate with its flow log: the bytes of links over time, and the durations of
// transfers. It writes tables validation_links and validations.
func ValidateLog(ctx context.Context, e *pipeline.Estimation, o LogOptions) (_ *LogValidation, err error) {
	if _, err := e.Records(schema.Slowdowns); err != nil {
		if e.Lake.Answer(e.ID()).Sampled() {
			err = fmt.Errorf("the last run of scenario %s is an estimate from windows of time (--within), and the "+
				"bytes of links need every flow: run it without --within, or a shorter part (--from, --to); an "+
				"estimate of all flows that the lake has is named by --scenario NAME@VARIANT", e.Spec.Name)
		}
		return nil, err
	}
	db, err := e.OpenDuckDB(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	log, err := reconcile.Open(ctx, e, db)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	v := &LogValidation{
		Validation: &Validation{Scenario: e.Spec.Name, Variant: e.Variant().String(), Truth: TruthLog},
	}
	v.PathsMove = e.Spec.Moves.Whole()
	if v.Durations, err = log.Durations(ctx, db); err == nil {
		err = v.compareDurations(ctx, e, db)
	}
	if err == nil && o.Counters.File != "" {
		v.Counters, err = log.ReadCounters(o.Counters)
	}
	if err == nil {
		v.Links, err = log.Links(ctx, db, o.SlotNS, v.Counters)
	}
	if err != nil {
		return nil, fmt.Errorf("estimate against the flow log: %w", err)
	}
	at := lake.Place{Scenario: e.ID(), Variant: e.Variant().Stored()}
	session := e.Executor().Session()
	rows := v.record()
	defer rows.Release()
	path := at.Dir(schema.Validations) + "/part-log.parquet"
	durations, err := session.WriteFile(schema.Validations, at, path, rows)
	if err != nil {
		return nil, err
	}
	return v, session.Publish(at, durations, v.Links.File)
}

// compareDurations compares the durations of the log with the estimated FCTs.
func (v *LogValidation) compareDurations(
	ctx context.Context, e *pipeline.Estimation, db *sql.DB,
) (err error) {
	if v.Durations.File == "" {
		return nil
	}
	defer func() { err = errors.Join(err, v.Durations.Remove()) }()
	v.Rows, v.Matched, err = compareQuantiles(ctx, e, db, duckdb.ScanParquet(v.Durations.File))
	return err
}

// AddTo adds the comparison to a text for users.
func (v *LogValidation) AddTo(a *text.Answer) {
	v.addLinks(a)
	if v.Counters != nil {
		v.addCounters(a)
	}
	a.Linef("")
	if len(v.Rows) == 0 {
		a.Linef("durations: %s", v.Durations.Why)
		return
	}
	a.Linef("durations of transfers, median by service")
	table := a.Table("service", "transfers", "flows", "log_ms", "simulated_ms", "simulated/log")
	for _, s := range v.Durations.Services {
		what := "whole connections"
		if s.Bulk {
			what = "bulk, an interval each"
		}
		table.Add(s.Service, what, s.Flows, s.LogNS/1e6, s.SimulatedNS/1e6, s.Ratio)
	}
	for _, s := range v.Durations.Services {
		if s.TooFast() {
			a.Linef("warning: bulk transfers of service %q take %.2g of their time in the log: the application "+
				"limits "+
				"them, not the network; simulate them as messages or paced (--traffic)", s.Service, s.Ratio)
		}
	}
	a.Linef("")
	v.Validation.AddTo(a)
}

// addLinks adds the comparison of links.
func (v *LogValidation) addLinks(a *text.Answer) {
	l := v.Links
	a.Linef("bytes of links against the flow log, %s to %s, in slots of "+
		"%s", units.Time(l.FromNS), units.Time(l.ToNS),
		time.Duration(l.SlotNS))
	bytes := func(n int64) string { return units.Human(float64(n)) + "B" }
	line := fmt.Sprintf("  %s in the log, %s simulated (%s)", bytes(l.Flows.Log), bytes(l.Flows.Simulated),
		text.Percent(l.Flows.Difference()))
	for _, of := range []struct {
		bytes int64
		text  string
	}{
		{l.Flows.After, "sent after the end"},
		{l.Flows.Earlier, "of the log not simulated, because their transfers began before"},
		{l.NoPath, "of the log without a path"},
	} {
		if of.bytes > 0 {
			line += fmt.Sprintf("; %s %s", bytes(of.bytes), of.text)
		}
	}
	a.Linef("%s", line)
	a.Linef("  %.3g%% of the bytes of links are in slots in which the simulated bytes are within "+
		"1%%", 100*l.Near)
	if v.PathsMove {
		a.Linef("  the paths of the run change (--balance, --event): bytes are counted on the first path of a flow")
	}
	if len(l.Worst) == 0 {
		a.Linef("  every link has the bytes of the log in every slot")
		return
	}
	a.Linef("")
	a.Linef("links with the most misplaced bytes (differences of slots, summed without their signs)")
	table := a.Table("link", "tier", "log_bytes", "simulated_bytes", "difference", "misplaced", "earlier",
		"after_bytes")
	for _, x := range l.Worst {
		total := float64(max(1, x.Log))
		table.Add(x.Name, x.Tier, x.Log, x.Simulated, text.Percent(x.Difference()),
			text.Percent(float64(x.Misplaced)/total), text.Percent(float64(x.Earlier)/total), x.After)
	}
	if l.EarlierLinks > 0 {
		x := l.Earlier[0]
		a.Linef("warning: at least %g%% of the bytes of %d links belong to transfers that began before the run's "+
			"part of "+
			"the log, which are left out (%s: %.3g%%): begin earlier, or take a longer part (--from, --to)",
			100*reconcile.EarlierShare, l.EarlierLinks, x.Name, 100*float64(x.Earlier)/float64(x.Log))
	}
}

// addCounters adds the comparison of the log with interface counters.
func (v *LogValidation) addCounters(a *text.Answer) {
	c := v.Counters
	l := v.Links
	a.Linef("")
	a.Linef("flow log against the counters of interfaces, %s", c.File)
	a.Linef("  %d rows: %d used, %d set aside; %s; %s of 32-bit counters", c.Rows, c.Used,
		c.Rows-c.Used, topology.Count(c.Links, "link"), topology.Count(int(c.Wraps), "wrap"))
	for _, s := range c.SetAside {
		a.Linef("  %d set aside: %s (first: line %d)", s.Rows, s.Reason, s.Line)
	}
	if c.Unsorted > 0 {
		a.Linef("  %d rows are earlier than one before them of their port: the rows were sorted", c.Unsorted)
	}
	if l.Counted.Counted == 0 {
		a.Linef("  the counters cover no slot with bytes: take longer slots (--slot)")
		return
	}
	a.Linef("  the flows explain %.3g%% of the bytes that the links counted", 100*(1+l.Counted.Difference()))
	if l.DifferLinks == 0 {
		a.Linef("  no link differs by more than 10%%")
		return
	}
	a.Linef("%s where the flows differ from the counters by more than 10%%",
		topology.Count(l.DifferLinks, "link"))
	table := a.Table("link", "log_bytes", "counted_bytes", "difference")
	for _, x := range l.Differ {
		var difference any
		if x.Counted > 0 {
			difference = text.Percent(x.Difference())
		}
		table.Add(x.Name, x.Log, x.Counted, difference)
	}
}
