package queries

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
)

// makeBigLake writes a lake with two estimates of n random flows over 512 links, in files of
// 250,000 flows.
func makeBigLake(t testing.TB, n int) string {
	t.Helper()
	db := rawDB(t)
	lake := filepath.Join(t.TempDir(), "big")
	// A number in [0, 1) that depends on the flow and on the stream.
	u := func(row, stream string) string {
		return fmt.Sprintf("(hash(%s, %s) %% 1000000 / 1e6)", row, stream)
	}
	const perFile = 250_000
	for from := 0; from < n; from += perFile {
		flows := fmt.Sprintf(`SELECT i, CAST(256 * %s AS INTEGER), 7, CAST(10 ** (2 + 5 * %s) AS BIGINT),
			i * 2500, 'service ' || (i %% 3), 'net ' || (i %% 2), i %% 5 = 0, CAST(i %% 64 AS SMALLINT), i, false
			FROM range(%d, %d) AS r(i)`, u("i", "1"), u("i", "2"), from, min(n, from+perFile))
		writePart(t, db, lake, "flows", "scenario=big", flows)
		for _, variant := range []string{"own", "paper"} {
			writePart(t, db, lake, "slowdowns", "scenario=big/variant="+variant, fmt.Sprintf(
				`SELECT i, i, s, d, service, net, size, start, CAST(2 + 2 * (i %% 3) AS SMALLINT), 1000,
					CAST(1000 * slow AS BIGINT), 0, slow, i %% 3, i %% 2
				FROM (SELECT *, 1 - ln(1 - %s) AS slow FROM (%s)
					AS f(i, s, d, size, start, service, net, synthetic, dscp, connection, background))`,
				u("i", duckdb.Quote(variant)), flows))
			writePart(t, db, lake, "hop_contributions", "scenario=big/variant="+variant, fmt.Sprintf(
				`SELECT i, h, 2 + 2 * (i %% 3), CAST(511 * %s AS INTEGER), 1000 * %s, 0, 0, 0
				FROM range(%d, %d) AS r(i), range(2 + 2 * (i %% 3)) AS hops(h)
				WHERE %s < 0.35`, u("i", "h"), u("i", "h + 10"), from, min(n, from+perFile), u("i", "h + 20")))
		}
	}
	writePart(t, db, lake, "hops", "scenario=big", fmt.Sprintf(`SELECT %s
		FROM range(%d) AS r(i), range(2 + 2 * (i %% 3)) AS hops(h) ORDER BY 1, 2`,
		hopRow("i", "h", "CAST(511 * "+u("i", "h")+" AS INTEGER)"), n))
	// The first 2,000 flows wait at a link that other flows use at the same time.
	writePart(t, db, lake, "hop_contributions", "scenario=big/variant=own",
		`SELECT i, 9, 10, 512, 1e6, 0, 0, 0 FROM range(2000) AS r(i)`)
	writePart(t, db, lake, "hops", "scenario=big", "SELECT "+hopRow("i", "9", "512")+" FROM range(2000) AS r(i)")
	writePart(t, db, lake, "exact_fcts", "scenario=big/variant=exact", fmt.Sprintf(
		`SELECT i, i, 1000, i * 2500, 2, 1000, CAST(1000 * (1 - ln(1 - %s)) AS BIGINT), 0, 1, 0, 0
			FROM range(%d) AS r(i)`, u("i", "'exact'"), n))
	// Each of the first 300 flows of a service waits for the one before it.
	writePart(t, db, lake, "dependencies", "scenario=big",
		`SELECT i, i, i - 3, i - 3, 100 FROM range(3, 900) AS r(i)`)
	writePart(t, db, lake, "hop_contributions", "scenario=big/variant=exact",
		`SELECT i, 0, 1, i % 64, i % 7, 0, 0, 0 FROM range(900) AS r(i)`)
	writePart(t, db, lake, "exact_hops", "scenario=big/variant=exact",
		`SELECT i, 0, i % 64, 0, 0, 0 FROM range(900) AS r(i)`)
	for _, variant := range []string{"own", "paper"} {
		writePart(t, db, lake, "link_stats", "scenario=big/variant="+variant, fmt.Sprintf(
			`SELECT i, i, i + 1, 'x-y', 10000000000, 9000000000, 1, 1, 1, %s, 1, 0, 1, 1, 1, 0.5, 1.0, 0.5, [], [], false, i %% 5, i * 10 FROM range(512) AS r(i)`, u("i", "5")))
	}
	for _, pass := range []string{"flow-1", "flow-2"} {
		writePart(t, db, lake, "link_stats", "scenario=big/variant="+pass, fmt.Sprintf(
			`SELECT i, i, i + 1, 'x-y', 10000000000, 9000000000, 1, 1, 1, 0.5, 1, 0, 1, 1, 1, 0.5, %s, 0.5, [], [], false, 0, 0 FROM range(512) AS r(i)`, u("i", duckdb.Quote(pass))))
	}
	writePart(t, db, lake, "link_slots", "scenario=big/variant=own",
		`SELECT i // 128, i % 128 * 1000, (i % 128 + 1) * 1000, i, i / 65536 FROM range(65536) AS r(i)`)
	writePart(t, db, lake, "windows", "scenario=big/variant=own",
		`SELECT i, 1, 'w', 0, 4, 2, 2.0, i, i + 1, 1, 1, 1 FROM range(64) AS r(i)`)
	writePart(t, db, lake, "sampled_slowdowns", "scenario=big/variant=own",
		`SELECT i, i // 100, 2.0, 0, 1, 'service ' || (i % 3), 'net ' || (i % 2), 1000 + i, i * 2500, 1000, 2000, 2.0 FROM range(6400) AS r(i)`)
	writePart(t, db, lake, "intervals", "scenario=big/variant=own",
		`SELECT NULL, NULL, 'all', q, 128, 2.0, 1.5, 2.5, '', 1.6, 2.4, 0.1 FROM (VALUES (0.5), (0.99)) AS r(q)`)
	writePart(t, db, lake, "message_sizes", "scenario=big/variant=own",
		`SELECT 'service ' || i, f, 16000, 16, 0.1, 5000, 2.0, 0.5, 0.25, 0.75
		FROM range(64) AS r(i), (VALUES (0.25), (1.0), (3.0)) AS v(f)`)
	writePart(t, db, lake, "links", "scenario=big",
		`SELECT i, i % 257, (i + 1) % 257, 10000000000, 1000, 'x-y', false, NULL, NULL FROM range(513) AS r(i)`)
	writePart(t, db, lake, "scenarios", "scenario=big",
		fmt.Sprintf(`VALUES ('big', 'big', 'big', 1, '{"classes": [{"name": "a", "queue": 0},
		{"name": "b", "queue": 1, "services": ["service 1"], "vnets": ["net 1"]},
		{"name": "c", "queue": 2, "dscp": [46]}],
		"moves": {"events": [{"from_ns": 10000000, "to_ns": 20000000}]}}', %d, 0, 0, 0, 0, 0, 0, 0, 1, NULL)`, n))
	writePart(t, db, lake, "validations", "scenario=big/variant=own",
		`SELECT 'exact', if(i = 0, 'all', 'bin ' || i), 7, 0.99, 9.5, 10, -0.05, -0.1, 0.1, 0.2
		FROM range(4) AS r(i)`)
	writePart(t, db, lake, "validation_links", "scenario=big/variant=own", `SELECT i // 128, i % 128 * 1000,
		(i % 128 + 1) * 1000, i, i + 1, 0, NULL FROM range(65536) AS r(i)`)
	writePart(t, db, lake, "sweep_runs", "scenario=big/variant=own",
		`SELECT 'small', 'seed=' || i, 'seed', i || '', i, 7, 1.5, NULL, 2.5, NULL, 3.5, NULL, 4.5, NULL, NULL, NULL, 1.0 FROM range(512) AS r(i)`)
	writePart(t, db, lake, "sweep_runs", "scenario=big/variant=own",
		`SELECT 'grid', 'load.max=' || i || ', sigma=' || i, p, i || '', i, 7, 1.5, NULL, 2.5, NULL, 3.5, NULL, 4.5, NULL, NULL, NULL, 1.0 FROM range(512) AS r(i), (VALUES ('load.max'), ('sigma')) AS v(p)`)
	writePart(t, db, lake, "comparisons", "scenario=big/variant=own",
		`SELECT 'small', 'own', 's' || i, 'all', 'all', 'all', i, 0.5, 2.0, 3.0, 0.5, 0.25, 0.75, 1.0, 1.0, 0.0, 0.0, 0.0 FROM range(512) AS r(i)`)
	writePart(t, db, lake, "comparison_links", "scenario=big/variant=own",
		`SELECT 'small', 'own', i + 1, CAST(i AS INTEGER), CAST(i AS INTEGER), 'a → b', 'x', 512, 0.5, 0.25, 50.0, 0.0 FROM range(512) AS r(i)`)
	writePart(t, db, lake, "sweeps", "scenario=big/variant=own",
		`SELECT 'x', CAST(i AS INTEGER), CAST(i + 1 AS INTEGER), 'all', i, 0, 'flow-1', 1.0, 2.0, 3.0, 4.0, 0.0, 0.5, i / 512.0, 0.125, 1.0, 2.0, 3, 4 FROM range(512) AS r(i)`)
	writePart(t, db, lake, "nodes", "scenario=big",
		`SELECT i, 'n' || i, if(i < 128, 'host', 'tor'), i // 128, i // 8, 'rack ' || i // 8 FROM range(257) AS r(i)`)
	return lake
}

// Charts by service show the services with the most flows only: answers with 40,000 services would be too
// large to draw. In short tests, a tenth of the services suffices.
func TestManyServices(t *testing.T) {
	services := 40_000
	if testing.Short() {
		services = 4_000
	}
	db := rawDB(t)
	lake := filepath.Join(t.TempDir(), "many")
	writePart(t, db, lake, "slowdowns", "scenario=big/variant=own", fmt.Sprintf(
		`SELECT i, i, i %% 32, i %% 31, 'service ' || (i %% %d),
		'net ' || (i %% %d), 100 + hash(i) %% 100000, i * 2500, 2, 1000, 2000, 0, 1 + i %% 97, 0, 0
		FROM range(%d) AS r(i)`, services, services/2, 2*services))
	writePart(t, db, lake, "scenarios", "scenario=big",
		fmt.Sprintf(`VALUES ('big', 'big', 'big', 1, '{}', %d, 0, 0, 0, 0, 0, 0, 0, 1, NULL)`, 2*services))
	of := open(t, lake, limits(2, 300e6))
	for name, most := range map[string]int{"percentiles_by_group": 400, "slowdown_vs_size_by_group": 60,
		"slowdown_and_load_over_time": 500} {
		out := answer(t, of, name, "csv", map[string]string{"scenario": "big", "variant": "own"})
		n := strings.Count(out, "\n")
		if n < 20 || n > most {
			t.Errorf("%s: %d rows", name, n)
		}
	}
}

// BenchmarkQuestions measures every question on 2,000,000 flows of one scenario and variant, out of
// two variants in the lake.
func BenchmarkQuestions(b *testing.B) {
	lake := makeBigLake(b, 2_000_000)
	db := open(b, lake, Options{})
	for _, q := range listed(b) {
		b.Run(q.Name, func(b *testing.B) {
			for range b.N {
				out := answer(b, db, q.Name, "csv", map[string]string{"scenario": "big", "variant": "own"})
				if strings.Count(out, "\n") < 2 {
					b.Fatal("no rows")
				}
			}
		})
	}
}
