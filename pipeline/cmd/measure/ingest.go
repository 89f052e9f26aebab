package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	dayHosts   = 256 // of topology small-2to1
	dayStart   = 1769817600
	dayDamaged = 100 // one record in so many
)

// A day is a synthetic day of VPC flow logs with its truth.
type day struct {
	b                *bench
	rng              *rand.Rand
	files            [24]*bufio.Writer
	records, damaged int64
	flows            int64
	bytes            [2][dayHosts]int64 // sent and received
}

// ingestDay ingests a synthetic day of VPC flow logs, in which every flow was recorded at both ends, a record a minute,
// and 1% of the records are damaged, and compares the flows with the truth.
func ingestDay(ctx context.Context, b *bench) {
	d := &day{b: b, rng: rand.New(rand.NewPCG(7, 7))}
	d.write(int64(b.parse(b.names([]string{"100000"}, []string{"10000000"})[0])))
	hosts := "address,node_id\n"
	for i := range dayHosts {
		hosts += fmt.Sprintf("%s,%d\n", address(i), i)
	}
	lake := b.lake()
	text, processor := b.parsimon(ctx, "ingest", b.tmp+"/logs", "--format", "vpc", "--hosts", b.file("hosts.csv", hosts),
		"--topology", "small-2to1", "--max-rejects", "2%", "--lake", lake, "--format", "json")
	var report struct{ Rows, Flows, Merged, Rejects int64 }
	b.decode(text, &report)
	if report.Rows != d.records || report.Rows != report.Flows+report.Merged+report.Rejects {
		b.fail(fmt.Errorf("%d records became %+v", d.records, report))
	}
	b.header("records", "damaged", "rejected", "flows", "flows found", "records a processor second",
		"largest difference of a host's bytes")
	worst := d.worstHost(ctx, lake)
	b.row(d.records, d.damaged, report.Rejects, d.flows, report.Flows, si(float64(d.records)/processor),
		fmt.Sprintf("%.3f%%", 100*worst))
}

func address(host int) string { return fmt.Sprintf("10.0.%d.%d", host/128, 1+host%128) }

// write writes a gzipped file for each hour.
func (d *day) write(records int64) {
	for hour := range d.files {
		folder := filepath.Join(d.b.tmp, "logs", fmt.Sprintf("hour=%02d", hour))
		d.b.fail(os.MkdirAll(folder, 0o755))
		f, err := os.Create(filepath.Join(folder, "vpcflowlogs.log.gz"))
		d.b.fail(err)
		z := gzip.NewWriter(f)
		d.files[hour] = bufio.NewWriterSize(z, 1<<16)
		defer func() { d.b.fail(errors.Join(d.files[hour].Flush(), z.Close(), f.Close())) }()
		_, _ = d.files[hour].WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol " +
			"packets bytes start end action log-status\n") // Flush reports write errors
	}
	const lastNS = 86400e9 - 600e9
	gap := lastNS / (float64(records) / 2.3)
	for at := 0.0; d.records < records && at < lastNS; at += gap * d.rng.ExpFloat64() {
		d.flow(int64(at))
	}
}

// flow writes the records of one flow: at both ends, one for each minute that it lasts.
func (d *day) flow(startNS int64) {
	src := d.rng.IntN(dayHosts)
	dst := (src + 1 + d.rng.IntN(dayHosts-1)) % dayHosts
	size := int64(min(1e9, 40+math.Exp(8+2*d.rng.NormFloat64())))
	duration := d.rng.Int64N(2e9)
	if d.rng.IntN(20) == 0 {
		duration = d.rng.Int64N(300e9)
	}
	source, destination := 32768+d.rng.IntN(28000), []int{443, 3306, 6379, 9092, 8020}[d.rng.IntN(5)]
	d.flows++
	d.bytes[0][src] += size
	d.bytes[1][dst] += size
	const minute = int64(60e9)
	minutes := 1 + (startNS+duration)/minute - startNS/minute
	for left, i := size, int64(0); i < minutes; i++ {
		bytes := left / (minutes - i)
		left -= bytes
		from, to := max(startNS, (startNS/minute+i)*minute), min(startNS+duration, (startNS/minute+i+1)*minute-1)
		for _, end := range []int{src, dst} {
			if bytes > 0 {
				connection := fmt.Sprintf("%s %s %d %d 6 %d", address(src), address(dst), source, destination, (bytes+1447)/1448)
				d.record(end, connection, bytes, from/1e9, to/1e9)
			}
		}
	}
}

// record writes one line, or a damaged one. Write errors are those of Flush.
func (d *day) record(host int, connection string, bytes, from, to int64) {
	d.records++
	line := fmt.Sprintf("2 123456789010 eni-%08x %s %d %d %d ACCEPT OK",
		host, connection, bytes, dayStart+from, dayStart+to)
	if d.rng.IntN(dayDamaged) == 0 {
		d.damaged++
		switch d.rng.IntN(4) {
		case 0: // cut short
			line = line[:20+d.rng.IntN(20)]
		case 1: // an unknown host
			line = strings.Replace(line, " 10.0.", " 203.0.", 1)
		case 2: // not a number
			line = strings.Replace(line, fmt.Sprintf(" %d ", dayStart+from), " many ", 1)
		case 3: // a clock in 1970
			line = strings.ReplaceAll(line, strconv.FormatInt(dayStart+from, 10), "1000")
		}
	}
	_, _ = d.files[min(len(d.files)-1, int(to/3600))].WriteString(line + "\n")
}

// worstHost returns the largest relative difference between the bytes of a host in the lake and in truth.
func (d *day) worstHost(ctx context.Context, lake string) (worst float64) {
	for i, column := range []string{"src", "dst"} {
		found := query[struct {
			Host  int
			Bytes int64
		}](ctx, d.b, lake, fmt.Sprintf(
			"SELECT %s AS host, sum(size_bytes)::BIGINT AS bytes FROM workload_flows GROUP BY host", column))
		if len(found) != dayHosts {
			d.b.fail(fmt.Errorf("%d hosts have flows, not %d", len(found), dayHosts))
		}
		for _, r := range found {
			worst = max(worst, abs(float64(r.Bytes)/float64(d.bytes[i][r.Host])-1))
		}
	}
	return worst
}
