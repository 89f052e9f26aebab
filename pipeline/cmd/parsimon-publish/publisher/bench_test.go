package publisher

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// rowsKey names the environment variable with the number of rows that BenchmarkPublish publishes.
const rowsKey = "PARSIMON_ROWS"

// rowsAFile is the number of rows of a data file of BenchmarkPublish.
const rowsAFile = 1_000_000

// BenchmarkPublish publishes table slowdowns to a local S3 server, and publishes it again. It reports the
// size of the lake's files, the bytes sent over it, and seconds.
func BenchmarkPublish(b *testing.B) {
	rows := 100_000
	text := os.Getenv(rowsKey)
	if text != "" {
		given, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%s: %v", rowsKey, err)
		}
		rows = given
	}
	s3test.Start(b)
	l, lakeBytes := fillSlowdowns(b, b.TempDir(), rows)
	for n := 0; b.Loop(); n++ {
		p := publisherTo(b, l, fmt.Sprintf("%s/%d", companyURL, n))
		p.AtOnce = 8
		p.Tables = []tables.Published{{Name: "slowdowns", Table: schema.Slowdowns},
			{Name: "scenarios", Table: schema.Scenarios}}
		begun := time.Now()
		sent := publishAll(b, p, first)[0].Bytes
		b.ReportMetric(time.Since(begun).Seconds(), "s/first")
		begun = time.Now()
		again := publishAll(b, p, first)[0].Bytes
		b.ReportMetric(time.Since(begun).Seconds(), "s/again")
		b.ReportMetric(float64(sent)/float64(lakeBytes), "sent/lake")
		b.ReportMetric(float64(again), "B-sent/again")
	}
	b.ReportMetric(float64(lakeBytes)/float64(rows), "B/row")
	b.ReportMetric(float64(rows), "rows")
}

// fillSlowdowns commits an answer with random rows, and returns the size of its files.
func fillSlowdowns(b *testing.B, dir string, rows int) (l *lake.Lake, bytes int64) {
	b.Helper()
	l, err := lake.Open(dir, true)
	if err != nil {
		b.Fatal(err)
	}
	at := lake.Place{Scenario: first, Variant: twoPasses}
	s, err := l.Lock(b.Context(), lake.Of(first))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	write := func(p lake.Place, t schema.Table, sizes ...int) {
		var files []lake.DataFile
		for n, size := range sizes {
			rec := fixture.Batch(t, rng, size)
			d, err := s.WriteFile(t, p, p.File(t, n), rec)
			rec.Release()
			if err != nil {
				b.Fatal(err)
			}
			bytes += d.Bytes
			files = append(files, d)
		}
		if err := s.Commit(p, files); err != nil {
			b.Fatal(err)
		}
	}
	write(lake.Of(first), schema.Scenarios, 1)
	bytes = 0
	var sizes []int
	for left := rows; left > 0; left -= rowsAFile {
		sizes = append(sizes, min(left, rowsAFile))
	}
	write(at, schema.Slowdowns, sizes...)
	if err := s.SetAnswer(first, twoPasses); err != nil {
		b.Fatal(err)
	}
	return l, bytes
}
