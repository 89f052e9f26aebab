package ingest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parsimon/schema/daily"
	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// A loggedMinute is the bytes and packets of a connection in a minute. Packets have 1500 bytes.
type loggedMinute struct{ src, dst, port, minute, packets int }

// minuteLog returns half an hour of connections of one kind: persistent ones send all the time, bursts are
// minutes of different sizes, a tunnel is one connection that has the bytes of many, and small ones are over
// within the minute.
func minuteLog(kind string) (all []loggedMinute) {
	s := rng.New(uint64(len(kind)), rng.Start)
	for c := range 6 {
		l := loggedMinute{src: c % 4, dst: (c + 1) % 4, port: 40_000 + c}
		for l.minute = range 30 {
			switch kind {
			case "persistent":
				l.packets = 50_000
			case "bursty":
				l.packets = 1 + s.IntN(10)*s.IntN(20_000)
			case "tunnel":
				l.packets = 1 + (5-c)/5*(500_000+s.IntN(500_000))
			case "small":
				l.port++
				l.packets = 1 + s.IntN(50_000)
			}
			all = append(all, l)
		}
	}
	return all
}

// bytesByMinute reads what links are offered: "SRC DST MINUTE" and bytes. Flows without intervals have their
// bytes at their start.
func bytesByMinute(t *testing.T, r tested) map[string]int {
	t.Helper()
	got := map[string]int{}
	text := askParquet(t, fmt.Sprintf(`WITH offered AS (
  SELECT flow_id, start_ns, bytes FROM '%s'
  UNION ALL SELECT flow_id, start_ns, size_bytes FROM %%[1]s AS f ANTI JOIN '%[1]s' AS i USING (flow_id)
)
SELECT format('{} {} {}=', f.src, f.dst, o.start_ns // 60000000000 - 29496960) || sum(bytes)
FROM offered AS o JOIN %%[1]s AS f USING (flow_id)
GROUP BY f.src, f.dst, o.start_ns // 60000000000`, r.IntervalsFile), r.FlowsFile)
	for _, line := range strings.Split(text, "; ") {
		key, bytes, _ := strings.Cut(line, "=")
		var n int
		if _, err := fmt.Sscan(bytes, &n); err != nil {
			t.Fatal(line, err)
		}
		got[key] = n
	}
	return got
}

// In every minute, each pair of hosts, and thus each link, is offered the bytes that the log has for it. They
// are exact or, if packets are sampled, within the uncertainty of sampling. If a connection's bytes were all
// at its start, the first minute would be overloaded and the others empty.
func TestLinksAreOfferedTheBytesOfEachMinute(t *testing.T) {
	for k, kind := range []string{"persistent", "bursty", "tunnel", "small"} {
		for f, c := range []struct {
			format, header string
			rate           int
			line           func(s *rng.Stream, l loggedMinute, begin time.Time) string
		}{
			{"vpc", "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start " +
				"end action log-status\n", 1, vpcMinute},
			{"ipfix", "sourceIPv4Address,destinationIPv4Address,sourceTransportPort,destinationTransportPort," +
				"protocolIdentifier,octetDeltaCount,packetDeltaCount,flowStartMilliseconds,flowEndMilliseconds\n", 1,
				ipfixMinute},
			{"nfdump", "ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra\n", 100, nfdumpMinute},
		} {
			t.Run(kind+" "+c.format, func(t *testing.T) {
				if leavesOut(t, 3*k+f, kind == "bursty" && daily.Runs(f, 3)) {
					t.Skip("left out today")
				}
				log := minuteLog(kind)
				want := map[string]int{}
				text := c.header
				s := rng.New(1, rng.Start)
				for _, l := range log {
					text += c.line(&s, l, time.Unix(29_496_960*60+int64(l.minute)*60, 0).UTC())
					want[fmt.Sprint(l.src, " ", l.dst, " ", l.minute)] += 1500 * l.packets
				}
				got := bytesByMinute(t, readMinutes(t, c.format, text, c.rate))
				for key, bytes := range want {
					// Two exporters sample one packet in rate: the variance of the bytes is 1500 × rate / 2
					// per byte.
					sigma := math.Sqrt(float64(bytes) * 1500 * float64(c.rate-1) / 2)
					if math.Abs(float64(got[key]-bytes)) > 5*sigma+15_000*float64(c.rate-1) {
						t.Errorf("%s (source, destination, minute): %d bytes, the log has %d, sigma %.0f", key, got[key], bytes,
							sigma)
					}
				}
			})
		}
	}
}

func readMinutes(t *testing.T, format, text string, rate int) tested {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Mapping: m, TmpDir: t.TempDir(), Seed: 1}
	o.MaxRejects = 1
	if rate > 1 {
		o.SamplingRate = int64(rate)
	}
	r, err := readFile(t, topologytest.SmallNetwork(t), file, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// vpcMinute returns the records of both ends.
func vpcMinute(_ *rng.Stream, l loggedMinute, begin time.Time) (lines string) {
	for _, eni := range []int{l.src, l.dst} {
		lines += fmt.Sprintf("2 1 eni-%d %d %d %d 443 6 %d %d %d %d ACCEPT OK\n", eni, l.src, l.dst, l.port,
			l.packets, 1500*l.packets, begin.Unix(), begin.Unix()+59)
	}
	return lines
}

func ipfixMinute(_ *rng.Stream, l loggedMinute, begin time.Time) string {
	return fmt.Sprintf("%d,%d,%d,443,6,%d,%d,%d,%d\n", l.src, l.dst, l.port, 1500*l.packets, l.packets,
		begin.UnixMilli(), begin.UnixMilli()+59_999)
}

// nfdumpMinute returns what two exporters sampled, if anything.
func nfdumpMinute(s *rng.Stream, l loggedMinute, begin time.Time) (lines string) {
	for exporter := range 2 {
		mean := float64(l.packets) / 100
		sampled := max(0, int(math.Round(mean+s.Normal()*math.Sqrt(mean*0.99))))
		if sampled > 0 {
			lines += fmt.Sprintf("%s,%s,%d,%d,%d,443,TCP,%d,%d,10.0.0.%d\n", begin.Format(time.DateTime),
				begin.Add(59*time.Second).Format(time.DateTime), l.src, l.dst, l.port, sampled, 1500*sampled, exporter)
		}
	}
	return lines
}

// The times of a record may be wrong. An end before the start, or a year after it, is a fault of that row,
// and the reason names the column. Otherwise, one row would spread its bytes over a year, or shorten the
// flow.
func TestWrongTimesOfARecordAreFaultsOfItsRow(t *testing.T) {
	const header = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
		"start end action log-status\n"
	const midnight = 1769817600
	const year = 365 * 86400
	line := func(port, from, to int) string {
		return fmt.Sprintf("2 1 eni 0 1 %d 443 6 4000 6000000 %d %d ACCEPT OK\n", port, midnight+from, midnight+to)
	}
	good := line(1, 0, 299) + line(1, 300, 599)
	for i, c := range []struct{ name, line, reason string }{
		{"ends before it starts", line(2, 60, 0), "end_ns is before start_ns"},
		{"lasts for a year", line(2, 0, year), endOutOfTime},
		{"began a year ago", line(2, -year, 59), outOfTime},
		{"began in a year", line(2, year, year+59), outOfTime},
	} {
		if daily.Skips(i, 4) {
			continue
		}
		r := readMinutes(t, "vpc", header+good+c.line, 1)
		if len(r.Reasons) != 1 || r.Reasons[0].Reason != c.reason || r.Reasons[0].Rows != 1 || r.Flows != 1 {
			t.Errorf("%s: %d flows, %+v; want one row for %q", c.name, r.Flows, r.Reasons, c.reason)
		}
	}
}

// Records of one observer may overlap, as if its clock went back. Their bytes all count, once, and the
// intervals of the flow do not overlap.
func TestRecordsThatOverlapCountOnce(t *testing.T) {
	text := "sourceIPv4Address,destinationIPv4Address,sourceTransportPort,destinationTransportPort," +
		"protocolIdentifier,octetDeltaCount,packetDeltaCount,flowStartMilliseconds,flowEndMilliseconds\n"
	s := rng.New(1, rng.Start)
	want := 0
	for range 200 {
		from := 1769817600000 + s.IntN(3_600_000)
		bytes := 1 + s.IntN(10_000_000)
		want += bytes
		text += fmt.Sprintf("0,1,5,443,6,%d,%d,%d,%d\n", bytes, 1+bytes/1500, from, from+s.IntN(1_200_000))
	}
	r := readMinutes(t, "ipfix", text, 1)
	got := askParquet(t, `SELECT format('{} {}', sum(bytes),
  count(*) FILTER (start_ns < before OR end_ns <= start_ns OR bytes < 1))
FROM (SELECT *, lag(end_ns) OVER (ORDER BY start_ns) AS before FROM %s)`, r.IntervalsFile)
	if got != fmt.Sprint(want, " 0") {
		t.Errorf("bytes, and intervals that overlap or are empty: %s; want %d and 0", got, want)
	}
}
