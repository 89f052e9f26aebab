package ingest

import (
	"context"
	"fmt"

	"parsimon/queries/duckdb"
	"parsimon/schema/units"
)

// noteSampling adds a note if most records of TCP with data are of one packet and do not say a rate: a connection that
// is not sampled has more.
func (in *Ingester) noteSampling(ctx context.Context, file string) error {
	var single, all int64
	err := in.query(ctx, "SELECT count(*) FILTER (packets = 1), count(*) FROM judged "+
		"WHERE reason IS NULL AND protocol = 6 AND packets > 0 AND sampling_rate IS NULL AND sampled IS NOT TRUE", &single, &all)
	if err == nil && 2*single > all && in.o.SamplingRate == 0 {
		in.Notes = append(in.Notes, fmt.Sprintf("%s: %d of %d records of TCP with data have one packet, as if packets were "+
			"sampled, and rows do not say the rate: if the exporter samples one packet in N, give --sampling-rate N", file,
			single, all))
	}
	return err
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
