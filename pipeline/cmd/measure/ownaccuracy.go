package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// ownAccuracy compares estimators with the simulation of the whole network on the shipped scenarios made for it
// (accuracy/*, all flows) and on the paper's microbenchmarks (parking-lot/*, their service main).
func ownAccuracy(ctx context.Context, b *bench) {
	b.compareWithExact(ctx, b.names([]string{"parking-lot/short-correlated"}, b.shipped("accuracy", "parking-lot")),
		b.ways("independent", "flow", "auto"))
}

// constantsAccuracy does the same on the shipped scenarios with transport constants far from the default ones.
func constantsAccuracy(ctx context.Context, b *bench) {
	b.compareWithExact(ctx, b.names([]string{"constants/jumbo-9000"}, b.shipped("constants")), b.ways("flow", "auto"))
}

// shipped returns the names of the shipped scenarios in some folders.
func (b *bench) shipped(folders ...string) (names []string) {
	for _, folder := range folders {
		files, err := filepath.Glob("datasets/scenarios/" + folder + "/*.yaml")
		b.fail(err)
		for _, f := range files {
			names = append(names, folder+"/"+strings.TrimSuffix(filepath.Base(f), ".yaml"))
		}
	}
	return names
}

// compareWithExact prints the errors of estimates of shipped scenarios, each in several ways.
func (b *bench) compareWithExact(ctx context.Context, scenarios, ways []string) {
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown.")
	b.header(append([]string{"scenario", "busiest link"}, ways...)...)
	tallies := make([]tally, len(ways))
	var bySize, byService [][]any
	for _, name := range scenarios {
		lake := b.lake()
		row, sizes, services := []any{name, ""}, []any{name}, [][]any{}
		for i, way := range ways {
			e := b.run(ctx, lake, append([]string{name}, estimator(way)...)...)
			v := b.validate(ctx, lake, e, estimator(way), "exact")
			row[1] = share(b.loads(ctx, lake, e).largest)
			shown := v["all"].errors
			for k, s := range b.serviceErrors(ctx, lake, e) {
				if i == 0 {
					services = append(services, []any{name, s.Service})
				}
				services[k] = append(services[k], s.Errors)
				if s.Service == "main" {
					shown = s.Errors
				}
			}
			row = append(row, shown)
			if !strings.HasPrefix(name, "parking-lot/") {
				tallies[i].add(name, shown.p99())
				sizes = append(sizes, v.bins())
			}
		}
		b.row(row...)
		if len(sizes) > 1 {
			bySize = append(bySize, sizes)
		}
		if len(sizes) > 1 && len(services) > 1 {
			byService = append(byService, services...)
		}
	}
	b.printf("")
	for i, way := range ways {
		b.verdict(way, tallies[i])
	}
	b.table("p99 by flow size, "+strings.Join(sizeBins, " / ")+"; – for 1,000 flows or fewer.",
		append([]string{"scenario"}, ways...), bySize)
	b.table("By service.", append([]string{"scenario", "service"}, ways...), byService)
}

// table prints a table that was collected; nothing for no rows.
func (b *bench) table(title string, head []string, rows [][]any) {
	if len(rows) == 0 {
		return
	}
	b.printf("\n%s", title)
	b.header(head...)
	for _, r := range rows {
		b.row(r...)
	}
}

type serviceErrors struct {
	Service string
	Errors  percentiles
}

// serviceErrors returns the errors of each service against the simulation of the whole network, in order of name.
func (b *bench) serviceErrors(ctx context.Context, lake string, e estimate) []serviceErrors {
	return query[serviceErrors](ctx, b, lake, fmt.Sprintf(`
		SELECT service, [p50_error, p90_error, p99_error, p999_error] AS errors FROM error_by_service
		WHERE scenario = '%s' AND variant = '%s' AND truth = 'exact' AND service <> 'all'
		ORDER BY service`, e.Scenario, e.Variant))
}
