package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"parsimon/queries/duckdb"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// noteSampling adds a note if most records of TCP with data are of one packet and do not say a rate, since a connection
// that is not sampled has more, and if rows do not take the rate of the options.
func (in *Ingester) noteSampling(ctx context.Context, file string) error {
	var single, tcp, scaled, all int64
	err := in.query(ctx, step("rates", nil), &single, &tcp, &scaled, &all)
	switch {
	case err != nil:
	case in.o.SamplingRate == 0 && 2*single > tcp:
		in.Notes = append(in.Notes, fmt.Sprintf("%s: %d of %d records of TCP with data have one packet, as if packets were "+
			"sampled, and rows do not say the rate: if the exporter samples one packet in N, give --sampling-rate N", file,
			single, tcp))
	case in.o.SamplingRate > 0 && scaled > 0:
		in.Notes = append(in.Notes, fmt.Sprintf("%s: --sampling-rate has no effect on %d of %d records: they have a rate of "+
			"their own, or their bytes are estimated from samples already", file, scaled, all))
	}
	return err
}

// A Gap is a time without starts of flows that a complete log would not have: from FromNS, before ToNS.
type Gap struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
}

// findGaps finds the gaps, the longest first.
func (m *merging) findGaps(ctx context.Context) error {
	return m.each(ctx, step("gaps", values{"flows": duckdb.ScanParquet(m.stats.FlowsFile)}), func(rows *sql.Rows) error {
		var g Gap
		err := rows.Scan(&g.FromNS, &g.ToNS)
		m.stats.Gaps = append(m.stats.Gaps, g)
		return err
	})
}

// Notes are remarks about the flows that start from fromNS to toNS, for the user.
func (s *MergeStats) Notes(fromNS, toNS int64) (notes []string) {
	if s.Sampling != "" {
		notes = append(notes, s.Sampling)
	}
	within := slices.DeleteFunc(slices.Clone(s.Gaps), func(g Gap) bool { return g.FromNS < fromNS || g.ToNS > toNS })
	sum := int64(0)
	for _, g := range within {
		sum += g.ToNS - g.FromNS
	}
	if len(within) > 0 {
		longest := within[0]
		notes = append(notes, fmt.Sprintf("no flow starts in %s (%.2g%% of the time), though at the mean rate some would, the "+
			"longest from %s for %v: if the log lacks records there, loads are too low", topology.Count(len(within), "gap"),
			100*float64(sum)/float64(toNS-fromNS), units.Time(longest.FromNS), time.Duration(longest.ToNS-longest.FromNS)))
	}
	return notes
}

// describeSampling says which flows are missing because none of their packets was sampled.
func (m *merging) describeSampling(ctx context.Context, flows string) error {
	var n int64
	var bytes, missing float64
	err := m.query(ctx, step("sampled", values{"flows": flows}), &n, &bytes, &missing)
	if err == nil && n > 0 {
		m.stats.Sampling = fmt.Sprintf("a sampled packet stands for %s bytes, and most flows smaller than that have none: the %d "+
			"sampled flows have their bytes, too, and stand for at least %s flows. Slowdowns by size hold from %s bytes on, which "+
			"19 of 20 flows of that size have a sample for; those of all flows leave out the small ones", units.Human(bytes), n,
			units.Human(float64(n)+missing), units.Human(3*bytes))
	}
	return err
}

// priorSamples is how many sampled packets of a flow count as much as what is known of all flows like it.
const priorSamples = 10

// exporters adds columns k and prior of table paths to records. Sampled bytes of a flow are divided by k. Unlike a
// choice of the exporter that sampled most, which is too large wherever samples are few, this has no bias.
func (in *Ingester) exporters(ctx context.Context, records string) (string, error) {
	tiers, places := map[int32]string{}, []string{}
	for _, l := range in.net.Links {
		tiers[l.Src] = l.Tier
	}
	for rack, hosts := range in.net.Racks() {
		for _, h := range hosts {
			places = append(places, fmt.Sprintf("(%d, %d, %s)", h, rack, duckdb.Quote(tiers[h])))
		}
	}
	err := in.create(ctx, "places (node INTEGER, rack INTEGER, tier VARCHAR)", places)
	if err == nil {
		err = in.exec(ctx, step("paths", values{"records": records, "prior_samples": priorSamples}))
	}
	return "(SELECT r.*, coalesce(k, 1) AS k, coalesce(prior, 1) AS prior FROM " + records + ` AS r
  JOIN places AS s ON r.src = s.node JOIN places AS d ON r.dst = d.node
  LEFT JOIN paths AS p ON s.rack = src_rack AND d.rack = dst_rack)`, err
}
