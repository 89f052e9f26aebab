package traffic

import (
	"context"
	"database/sql"
	_ "embed" // of earlier.sql
	"fmt"

	"parsimon/queries/duckdb"
	"parsimon/stages/topology"
)

// EarlierShare is the share of a link's bytes that belong to transfers from before a part of a workload, from
// which the part is said to lack them.
const EarlierShare = 0.05

// quietShare is the share of the bytes of the busiest host, sending or receiving, below which the links of a
// host are not named.
const quietShare = 0.01

// Earlier describes transfers that began before a part of a workload. They stay whole, so that the part lacks
// their bytes.
type Earlier struct {
	Bytes float64 // within the part
	Share float64 // of the bytes of the log within the part
	// Hosts counts the hosts, once for each direction, for which the share is at least EarlierShare. Worst is
	// the one with the most bytes.
	Hosts int
	Worst EarlierHost
}

// An EarlierHost is what a host sends or receives.
type EarlierHost struct {
	Host  int32
	Sends bool
	Share float64 // of its bytes
}

//go:embed earlier.sql
var earlierSQL string

// earlier finds the transfers that began before the part. divided is the SQL of the divided connections.
func (q *query) earlier(ctx context.Context, divided string) (e Earlier) {
	some := false
	q.row(ctx, fmt.Sprintf("SELECT EXISTS (FROM %s WHERE start_ns < %d)", q.Flows, q.FromNS), &some)
	if q.err != nil || !some {
		return e
	}
	type host struct {
		EarlierHost
		bytes, earlier float64
	}
	var hosts []host
	busiest := 0.0
	total := 0.0
	text := expand(earlierSQL, map[string]any{
		"flows": q.Flows, "intervals": q.Intervals, "divided": divided, "from_ns": q.FromNS, "to_ns": q.ToNS,
	})
	q.err = duckdb.Each(ctx, q.db, text, func(rows *sql.Rows) error {
		var h host
		if err := rows.Scan(&h.Host, &h.Sends, &h.bytes, &h.earlier); err != nil {
			return err
		}
		h.Share = h.earlier / h.bytes
		busiest = max(busiest, h.bytes)
		if h.Sends {
			total += h.bytes
			e.Bytes += h.earlier
		}
		hosts = append(hosts, h)
		return nil
	})
	if e.Bytes > 0 {
		e.Share = e.Bytes / total
	}
	for _, h := range hosts { // the most bytes of earlier transfers first
		if h.Share < EarlierShare || h.bytes < quietShare*busiest {
			continue
		}
		if e.Hosts == 0 {
			e.Worst = h.EarlierHost
		}
		e.Hosts++
	}
	return e
}

// Notes returns a remark if the links of a host, or all of them, lack a large share of the bytes of the log.
func (e *Earlier) Notes(n *topology.Network) []string {
	if e.Hosts == 0 {
		return nil
	}
	does := "receives"
	if e.Worst.Sends {
		does = "sends"
	}
	return []string{fmt.Sprintf("transfers that began before the run's part of the log have %s of it, %.2g%%, "+
		"and are left out: at least %g%% of what the links of %s carry, such as %.3g%% of what %s %s; a gate "+
		"there may pass falsely: begin earlier, or take a longer part (--from, --to)", sizeText(e.Bytes),
		100*e.Share, 100*EarlierShare, topology.Count(e.Hosts, "host"), 100*e.Worst.Share,
		n.Name(e.Worst.Host), does)}
}
