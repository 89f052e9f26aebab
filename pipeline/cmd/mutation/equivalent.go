package main

import (
	"path/filepath"
	"strings"
)

// An equivalent is a change that no test can find, because the program behaves the same with it. The tool
// leaves it out.
type equivalent struct {
	file string // the end of its path
	line string // the source line, without spaces around it
	text string
	why  string
}

const otherVersion = "any new number tells results apart"

// equivalents are few on purpose: a survivor is more often a missing test.
var equivalents = []equivalent{
	{"stages/tables/sort.go", "digitBits = 11", "11", "digits of any width sort"},
	{"stages/tables/sort.go", "fewBits   = 8", "8", "digits of any width sort"},
	{"stages/tables/sort.go", "fewRows   = 2_000", "2_000", "digits of any width sort"},
	{"stages/tables/sort.go", "if n <= fewRows {", "<=", "digits of any width sort"},
	{"stages/tables/sort.go", "for shift := 0; all>>shift != 0; shift += bits {", ">>",
		"more passes, the same order"},
	{"stages/tables/sort.go", "return uint64(row-least)<<10 | uint64(hop)", "10", "hops take fewer bits"},
	{"stages/tables/tables.go", "const SmallBatch = 4_096", "4_096",
		"rows do not depend on the size of batches"},
	{"stages/slowdown/hops.go", "const usualHops = 8", "8", "memory that is reserved"},
	{"stages/slowdown/hops.go",
		"if cap(x.hops)-len(x.hops) < int(hops) { // later flows have about as many hops", "", "memory"},
	{"stages/slowdown/hops.go",
		"x.hops = slices.Grow(x.hops, max(int(hops), min(int(hops), usualHops)*(len(x.length)-int(f))))", "",
		"memory"},
	{"stages/flow/feedback.go", "return float64(s.Uint64()>>11)/(1<<53) < probability", "<",
		"a random number of 53 bits equals the probability once in 2^53 times"},
	{"stages/exact/exact.go", "engine.EndNS = max(1, x.options.EndNS-x.feed.originNS)", "1",
		"a run that ends before its first flow may end 1 ns later"},
	{"stages/exact/exact.go",
		"if err := engine.Run(ctx, cmp.Or(x.options.Workers, runtime.GOMAXPROCS(0)), x.take); err != nil {", "0",
		"rows do not depend on the number of processors"},
	{"stages/confidence/intervals.go", "all[b] = 1", "1", "quantiles do not change if all weights are doubled"},
	{"stages/confidence/paired.go", "outside := pairedReplicates * 25 / 1000 // at either end", "25",
		"2.5 and 2.6 are both rounded to 2"},
	{"stages/linksim/simulate.go", "return rows[i].FlowRow, 0", "0",
		"the order of flows does not depend on a hop that all of them have"},
	{"stages/independent/bucket.go", "if len(b.buckets) >= columns.BatchRows/16 || to == len(b.rows) {", ">=",
		"rows do not depend on the size of batches"},
	{"stages/independent/bucket.go", "if len(b.buckets) >= columns.BatchRows/16 || to == len(b.rows) {", "16",
		"rows do not depend on the size of batches"},
	{"stages/independent/steps.go", "BytesPerRow: 150,", "150", "an estimate of memory"},
	{"stages/linksim/step.go", "BytesPerRow: 250,", "250", "an estimate of memory"},
	{"stages/route/step.go", "BytesPerRow: 250,", "250", "an estimate of memory"},
	{"stages/slowdown/slowdown.go", "BytesPerRow: 900,", "900", "an estimate of memory"},
	{"stages/flow/steps.go", "BytesPerRow: 1300,", "1300", "an estimate of memory"},
	{"stages/route/loads.go", "maxRangeFlows = 2_000_000", "2_000_000", "rows do not depend on ranges of links"},
	{"simkernel/tcp.go", "threshold: c.ReceiveWindow, recover: -1, minTimeoutPS: c.MinTimeoutNS * PSPerNS}", "1",
		"every acknowledged byte is above any number below 0"},
	{"simkernel/tcp.go", "name: name, version: 5,", "5", otherVersion},
	{"simkernel/tcp.go", "s.version = 6", "6", otherVersion},
	{"simkernel/dctcp.go", "name: \"dctcp\", version: 1,", "1", otherVersion},
	{"simkernel/dcqcn.go", "name: \"dcqcn\", version: 3,", "3", otherVersion},
	{"simkernel/hpcc.go", "name: \"hpcc\", version: 3, headerBytes: 42,", "3", otherVersion},
	{"simkernel/swift.go", "name: \"swift\", version: 4, headerBytes: 8,", "4", otherVersion},
	{"simkernel/timely.go", "name: \"timely\", version: 3, headerBytes: 8,", "3", otherVersion},
	{"stages/topology/describe.go", "if compareTiers(back, tier) < 0 {", "<", "equal tiers have equal names"},
	{"stages/topology/router.go", "h.only = -1", "1", "any number below 0 is none"},
	{"simkernel/network/calendar/sorter.go",
		"if len(same) > 16 {", "",
		"both ways sort, and equals keep their order"},
	{"simkernel/network/workers/workers.go",
		"if w.most > 1 {", ">",
		"a single worker has no other number to try"},
	{"simkernel/network/workers/workers.go",
		"busy := i > 0 && w.progress[owned[i-1]].taken.Load() <= w.progress[d].done.Load()", "",
		"any worker may simulate a step"},
	{"simkernel/network/workers/workers.go",
		"trialFor      = 15 * time.Millisecond  // a period: several time slices of an operating system", "",
		"how long a trial takes"},
	{"simkernel/network/workers/workers.go",
		"looksAtOnce   = 128", "128",
		"how often a waiting worker looks"},
	{"simkernel/network/workers/workers.go",
		"spinFor       = 200 * time.Microsecond // before a waiting worker sleeps", "",
		"how long a waiting worker looks"},
	{"simkernel/network/workers/workers.go",
		"progressEvery = 1 << 18                // items", "",
		"how often progress is reported"},
	{"stages/exact/results.go",
		"if len(x.results.fcts) < tables.SmallBatch && len(x.results.hops) < tables.SmallBatch {", "",
		"rows do not depend on the size of batches"},
	{"stages/linksim/simulate.go",
		"if len(s.delays) < columns.BatchRows {", "<",
		"rows do not depend on the size of batches"},
	{"stages/linksim/build.go", "b.caseNo++", "", "any new number tells cases apart"},
	{"stages/linksim/build.go",
		"c.RoomBytes = max(1, s.Rooms[link.ID]/crowdedPart)", "1",
		"no packet fits into 1 or 2 bytes"},
	{"stages/linksim/cluster.go", "return math.Inf(1)", "1", "infinity has a sign only"},
	{"stages/route/loads.go",
		"rangeFlows    = 500_000", "500_000",
		"rows do not depend on ranges of links"},
	{"stages/ingest/extsort/extsort.go",
		"return m.order.Compare(a.row, b.row) < 0", "<",
		"equal rows have no order"},
	{"stages/ingest/extsort/extsort.go",
		"func bufferRows[T any]() int { return max(1, int((64<<10)/unsafe.Sizeof(*new(T)))) }", "",
		"rows do not depend on the size of buffers"},
	{"stages/ingest/flatjson/flatjson.go", "r.objects++", "", "any new number tells objects apart"},
	{"stages/confidence/intervals.go",
		"bins   [sizebin.Count + 1]intervalGroup", "1",
		"a group without flows has no rows"},
	{"stages/rng/rng.go",
		"u := float64(s.Uint64()>>11+1) * 0x1p-53 // (0, 1]: its logarithm is finite", "1",
		"one of 2^53 numbers differs"},
	{"simkernel/dcqcn.go", "const alphaGone = 1.0 / (1 << 60)", "",
		"such an alpha is far below the precision of a rate"},
	{"simkernel/network/calendar/fifo.go", "} else if taken >= 32 && int(taken)*2 > len(f.Buf) {", "",
		"memory is trimmed at another time"},
	{"simkernel/network/calendar/calendar.go", "if last >= 0 {", "", "memory"},
	{"simkernel/network/calendar/sorter.go", "if len(arrivals) < len(ports) {", "<",
		"both ways find all ports"},
	{"simkernel/network/calendar/sorter.go", "at := int32(0)", "0",
		"the first arrival may have any place in memory"},
	{"simkernel/network/partition/partition.go", "count := slices.Max(groupOf) + 1", "1",
		"a group without nodes changes nothing"},
	{"simkernel/network/calendar/sorter.go",
		"host := (s.first - 1 - u) >> 31 // all bits of host are set for a host", "31", "a sign fills all bits"},
	{"simkernel/network/faults/faults.go", "case f.BurstNS > 0:", "0", "bursts last 1,000 ns or more"},
	{"simkernel/network/faults/faults.go", "for b.drawn == 0 || b.untilPS <= atPS {", "0",
		"untilPS is 0 at first, which no time is before"},
	{"simkernel/network/faults/faults.go",
		"b.loses = u >= f.Share // before the first time, which is a burst with this probability", ">=",
		"a random number of 53 bits equals the share once in 2^53 times"},
	{"simkernel/network/faults/faults.go",
		"b.untilPS += 1 + int64(min(-math.Log(u)*meanPS, simkernel.HorizonPS))", "1", "1 ps of 1,000 ns or more"},
	{"simkernel/network/roundrobin/ring.go", "case word&(word-1) == 0:", "0",
		"no word has this result: the general case does the same"},
	{"simkernel/network/roundrobin/ring.go", "case word&(word-1) == 0:", "1",
		"a single flow may also take the general case"},
	{"simkernel/network/roundrobin/ring.go", "c.Places[place].Slot = -1", "1", "any slot below 0 is none"},
}

// isEquivalent reports whether a change is listed. An entry without a text lists all changes of its line.
func isEquivalent(file, line, text string) bool {
	for _, e := range equivalents {
		if strings.HasSuffix(filepath.ToSlash(file), e.file) && strings.TrimSpace(line) == e.line &&
			(e.text == "" || e.text == text) {
			return true
		}
	}
	return false
}
