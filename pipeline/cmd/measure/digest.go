package main

import (
	"context"
	"errors"
	"fmt"
)

// digest prints the rows of every table of results of a lake and a digest of them. The order of rows does not count,
// and neither does whether a result came from the cache.
func digest(ctx context.Context, b *bench) {
	if len(b.args) != 1 {
		b.fail(errors.New("digest wants one LAKE"))
		return
	}
	b.header("table", "rows", "digest")
	for _, table := range []string{"scenarios", "nodes", "links", "flows", "hops", "link_loads",
		"link_stats", "sender_fcts", "hop_delays", "delay_buckets", "hop_contributions", "slowdowns",
		"intervals", "warnings"} {
		columns := "*"
		if table == "link_stats" {
			columns = "* EXCLUDE (cached)"
		}
		r := queryRow[rows](ctx, b, b.args[0], fmt.Sprintf(`
			SELECT count(*) AS n, coalesce(sum(hash(t)::HUGEINT)::VARCHAR, '–') AS digest
			FROM (SELECT %s FROM %s) t`, columns, table))
		b.row(table, r.N, r.Digest)
	}
}
