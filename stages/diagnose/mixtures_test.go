package diagnose

import (
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// A bucket whose sizes differ by more than 4 times, and whose delays differ, has a warning. Without it, an
// estimate of large flows is several times too high and says nothing.
func TestMixedBuckets(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	type bucket struct {
		mixture
		Bucket int32     `col:"bucket"`
		Delays []float64 `col:"delays"`
	}
	table := columns.TableOf[bucket](schema.DelayBuckets)
	plain := mixture{0, 1000, 2000, 900, 400, 50, 500}
	for _, c := range []struct {
		name string
		is   mixture
		want string
	}{
		{"large flows wait less", mixture{3, 10_000, 400_000, 100, 50, 900, 90},
			"5% of the flows draw delays from buckets that mix sizes with different delays"},
		{"small flows wait less", mixture{3, 10_000, 400_000, 100, 20, 90, 900},
			"10% of the flows draw delays"}, // the mean of the bucket is 252
		{"delays are alike", mixture{3, 10_000, 400_000, 100, 60, 900, 450}, ""},
		{"sizes are alike", mixture{3, 100_000, 400_000, 100, 60, 900, 90}, ""},
		{"delays are short", mixture{3, 10_000, 400_000, 100, 50, 9, 0.9}, ""},
		{"few flows", mixture{3, 10_000, 400_000, 100, 40, 900, 90}, ""},
		{"only small flows wait", mixture{3, 10_000, 400_000, 100, 50, 900, 0}, "5% of the flows draw delays"},
	} {
		var buckets tables.Memory
		if err := table.Write(&buckets, []bucket{{mixture: plain}, {mixture: c.is}}); err != nil {
			t.Fatal(err)
		}
		found, err := Mixed(m, buckets.Read())
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != min(1, len(c.want)) {
			t.Errorf("%s: %d warnings", c.name, len(found))
			continue
		}
		if len(found) == 1 && (!strings.HasPrefix(found[0].Text, c.want) || found[0].Link != 3) {
			t.Errorf("%s: %+v, want %q", c.name, found[0], c.want)
		}
	}
}
