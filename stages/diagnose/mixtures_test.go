package diagnose

import (
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// plainBucket is a bucket without mixture: the sizes of its flows differ little.
var plainBucket = mixture{0, 1000, 2000, 900, 400, 50, 500}

// mixturesOf reads plainBucket and other buckets.
func mixturesOf(t *testing.T, m *step.Model, others ...mixture) *Mixtures {
	t.Helper()
	type bucket struct {
		mixture
		Bucket int32     `col:"bucket"`
		Delays []float64 `col:"delays"`
	}
	table := columns.TableOf[bucket](schema.DelayBuckets)
	var buckets tables.Memory
	rows := []bucket{{mixture: plainBucket}}
	for _, is := range others {
		rows = append(rows, bucket{mixture: is})
	}
	if err := table.Write(&buckets, rows); err != nil {
		t.Fatal(err)
	}
	x, err := ReadMixtures(m, buckets.Read())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Flows are misplaced in a bucket whose sizes differ by more than 4 times, and whose delays differ. Without
// this count, percentiles that change for other reasons would be called mixed sizes.
func TestMisplacedFlows(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	for _, c := range []struct {
		name string
		is   mixture
		want int64 // of 1,000 flows
	}{
		{"large flows wait less", mixture{3, 10_000, 400_000, 100, 50, 900, 90}, 50},
		{"small flows wait less", mixture{3, 10_000, 400_000, 100, 20, 90, 900}, 100}, // the mean is 252
		{"delays are alike", mixture{3, 10_000, 400_000, 100, 60, 900, 450}, 0},
		{"the mean is exactly twice as long", mixture{3, 10_000, 400_000, 100, 50, 900, 300}, 0},
		{"the mean is more than twice as long", mixture{3, 10_000, 400_000, 100, 50, 900, 299}, 50},
		{"sizes differ by more than four times", mixture{3, 100_000, 400_001, 100, 50, 900, 90}, 50},
		{"sizes are alike", mixture{3, 100_000, 400_000, 100, 60, 900, 90}, 0},
		{"delays are short", mixture{3, 10_000, 400_000, 100, 50, 9, 0.9}, 0},
		{"few flows", mixture{3, 10_000, 400_000, 100, 40, 900, 90}, 40},
		{"only small flows wait", mixture{3, 10_000, 400_000, 100, 50, 900, 0}, 50},
		// A tenth of the time of a packet of 1,048 bytes is 83.84 ns. The means differ by half of these delays.
		{"more than a tenth of a packet", mixture{3, 10_000, 400_000, 100, 50, 168, 0}, 50},
		{"less than a tenth of a packet", mixture{3, 10_000, 400_000, 100, 50, 167, 0}, 0},
	} {
		x := mixturesOf(t, m, c.is)
		if x.misplaced != c.want || x.flows != 1000 || c.want > 0 && x.worst.Link != 3 {
			t.Errorf("%s: %+v, want %d flows", c.name, x, c.want)
		}
	}
}

// A bucket of a link that the topology does not have is an error, and not a panic.
func TestMixturesOfUnknownLinks(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	for link, want := range map[int32]string{
		-1: "link -1, of 8 links", 0: "", 7: "", 8: "link 8, of 8 links",
	} {
		type bucket struct {
			mixture
			Bucket int32     `col:"bucket"`
			Delays []float64 `col:"delays"`
		}
		is := plainBucket
		is.Link = link
		var buckets tables.Memory
		table := columns.TableOf[bucket](schema.DelayBuckets)
		if err := table.Write(&buckets, []bucket{{mixture: is}}); err != nil {
			t.Fatal(err)
		}
		_, err := ReadMixtures(m, buckets.Read())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("link %d: %v", link, err)
		}
	}
}

// The worst bucket is that with the largest sum of wrong delays. If it were another one, a warning would name
// a link that matters less.
func TestWorstMixture(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	less := mixture{3, 10_000, 400_000, 100, 50, 900, 90}
	for name, worse := range map[string]mixture{
		"longer delays": {5, 10_000, 400_000, 100, 50, 9000, 900},
		"larger flows":  {5, 100_000, 4_000_000, 100, 50, 900, 90},
		"more flows":    {5, 10_000, 400_000, 200, 100, 900, 90},
	} {
		for _, both := range [][]mixture{{less, worse}, {worse, less}} {
			got := mixturesOf(t, m, both...).worst
			if got != worse {
				t.Errorf("%s: the worst is %+v", name, got)
			}
		}
	}
	equal := less
	equal.Link = 5
	got := mixturesOf(t, m, less, equal).worst
	if got != less {
		t.Errorf("of two equal ones, the worst is %+v", got)
	}
}

// The warning names how much the draws change a percentile: p99 of all flows if it changes by 10%, else the
// largest change. The share of the flows that it named before says nothing about the size of the error: 11%
// of the flows made p99 three times too large.
func TestWarningNamesTheEffectOfMixtures(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	mixed := mixture{3, 10_000, 400_000, 100, 50, 900, 90}
	p99 := confidence.DrawEffect{SizeBin: sizebin.All, Quantile: 0.99, Drawn: 22.5, Own: 7.3}
	small := confidence.DrawEffect{SizeBin: sizebin.All, Quantile: 0.99, Drawn: 2.19, Own: 2}
	large := confidence.DrawEffect{SizeBin: ">1 MB", Quantile: 0.9, Drawn: 9, Own: 2}
	lower := confidence.DrawEffect{SizeBin: "<10 KB", Quantile: 0.9, Drawn: 3, Own: 4}
	ofSize := confidence.DrawEffect{SizeBin: "<10 KB", Quantile: 0.99, Drawn: 3, Own: 2}
	p90 := confidence.DrawEffect{SizeBin: sizebin.All, Quantile: 0.9, Drawn: 3, Own: 2}
	equal := confidence.DrawEffect{SizeBin: "<10 KB", Quantile: 0.9, Drawn: 9, Own: 2}
	median := confidence.DrawEffect{SizeBin: "<10 KB", Quantile: 0.5, Drawn: 2, Own: 1.5}
	for _, c := range []struct {
		name    string
		is      mixture
		effects []confidence.DrawEffect
		want    string
		measure float64
	}{
		{"p99", mixed, []confidence.DrawEffect{p99}, "flows of different sizes: p99 of all flows is 22.5, but " +
			"7.3 with the delays that the same flows had in their link cases (+208%); at ", 22.5/7.3 - 1},
		{"p99 and a larger one", mixed, []confidence.DrawEffect{p99, large}, "(+208%); the largest change is " +
			"that of p90 of flows of >1 MB, which is 9, but 2 with ", 22.5/7.3 - 1},
		{"large flows only", mixed, []confidence.DrawEffect{small, large}, ": p90 of flows of >1 MB is 9", 3.5},
		{"a percentile is lower", mixed, []confidence.DrawEffect{lower}, "p90 of flows of <10 KB is 3, but 4 " +
			"with the delays that the same flows had in their link cases (-25%)", 0.25},
		{"p99 of a size, and a larger one", mixed, []confidence.DrawEffect{large, ofSize},
			": p90 of flows of >1 MB is 9, but 2 with the delays that the same flows had in their link cases " +
				"(+350%); at ", 3.5},
		{"p90 of all, and a larger one", mixed, []confidence.DrawEffect{large, p90},
			": p90 of flows of >1 MB is 9, but 2 with the delays that the same flows had in their link cases " +
				"(+350%); at ", 3.5},
		{"two changes of equal size", mixed, []confidence.DrawEffect{large, equal},
			": p90 of flows of >1 MB is 9, but 2", 3.5},
		{"its example", mixture{3, 10_000, 400_000, 100, 50, 1550, 135}, []confidence.DrawEffect{p99},
			"the mean delay per packet is 1.6 us for the smaller and 0.14 us for the larger ones", 22.5/7.3 - 1},
		{"half of the flows beyond it", mixture{3, 10_000, 400_000, 900, 450, 900, 90},
			[]confidence.DrawEffect{median}, "p50 of flows of <10 KB is 2, but 1.5 with", median.Relative()},
		{"fewer than half of them", mixture{3, 10_000, 400_000, 900, 449, 900, 90},
			[]confidence.DrawEffect{median}, "", 0},
		{"a small effect", mixed, []confidence.DrawEffect{small}, "", 0},
		{"no effect", mixed, nil, "", 0},
		{"more flows than are misplaced", mixed, []confidence.DrawEffect{median}, "", 0},
		{"another cause", plainBucket, []confidence.DrawEffect{p99}, "", 0},
		{"few flows", mixture{3, 10_000, 400_000, 100, 4, 900, 90}, []confidence.DrawEffect{p99}, "", 0},
		{"enough flows", mixture{3, 10_000, 400_000, 100, 6, 900, 90}, []confidence.DrawEffect{p99},
			"p99 of all flows", 22.5/7.3 - 1},
	} {
		found := mixturesOf(t, m, c.is).Warning(m.Network, c.effects)
		if len(found) != min(1, len(c.want)) {
			t.Errorf("%s: %d warnings", c.name, len(found))
			continue
		}
		if len(found) == 1 && (!strings.Contains(found[0].Text, c.want) || found[0].Link != 3 ||
			found[0].Measure != c.measure || found[0].Threshold != 0.1) {
			t.Errorf("%s: %+v, want %q and %v", c.name, found[0], c.want, c.measure)
		}
	}
}

// With clusters, the effect is not known, and 5% of the flows are a reason for a warning.
func TestMixturesOfClusters(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	found := mixturesOf(t, m, mixture{3, 10_000, 400_000, 100, 50, 900, 90}).WarningOfClusters(m.Network)
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, "5% of the flows draw delays from buckets") {
		t.Errorf("5%%: %+v", found)
	}
	found = mixturesOf(t, m, mixture{3, 10_000, 400_000, 8100, 1620, 90, 900}).WarningOfClusters(m.Network)
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, "90% of the flows draw delays from buckets") {
		t.Errorf("90%%: %+v", found)
	}
	found = mixturesOf(t, m, mixture{3, 10_000, 400_000, 100, 49, 900, 90}).WarningOfClusters(m.Network)
	if len(found) != 0 {
		t.Errorf("4.9%%: %+v", found)
	}
}
