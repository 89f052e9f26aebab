package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"parsimon/simkernel"
)

// These are the paper's ns-3 runs, in a folder beside the repository.
const referenceDir = "../../../shared/reference"

// scenario is a reference workload with ns-3's results for one transport. trueFCT and trueIdeal are -1 where
// ns-3 has none.
type scenario struct {
	params             simkernel.Params
	links              []Link
	hosts              []bool
	src, dst           []int64
	sizeBytes, startNS []int64
	trueFCT, trueIdeal []int64
}

func loadScenario(t testing.TB, id int, kind simkernel.Transport) *scenario {
	t.Helper()
	dir := filepath.Join(referenceDir, "scenarios", strconv.Itoa(id))
	raw, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
	if os.IsNotExist(err) {
		t.Skipf("no ns-3 ground truth here: %s is missing", dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	var about struct{ Topology string }
	if err := json.Unmarshal(raw, &about); err != nil {
		t.Fatal(err)
	}
	s := &scenario{params: simkernel.ParamsOf(kind)}
	s.readTopology(t, filepath.Join(referenceDir, "topologies", about.Topology+".json"))
	flows := readColumns(t, filepath.Join(dir, "flows.parquet"))
	answers := "ns3.parquet"
	if kind != simkernel.DCTCP {
		answers = "ns3_" + kind.String() + ".parquet"
	}
	truth := readColumns(t, filepath.Join(dir, answers))
	answer := map[int64]int{}
	for i, id := range truth["flow_id"] {
		answer[id] = i
	}
	for i, size := range flows["size_bytes"] {
		if size == 0 {
			continue
		}
		s.src = append(s.src, flows["src"][i])
		s.dst = append(s.dst, flows["dst"][i])
		s.sizeBytes = append(s.sizeBytes, size)
		s.startNS = append(s.startNS, flows["start_ns"][i])
		fct := int64(-1)
		ideal := int64(-1)
		if row, ok := answer[flows["flow_id"][i]]; ok {
			fct = truth["fct_ns"][row]
			ideal = truth["ideal_ns"][row]
		}
		s.trueFCT = append(s.trueFCT, fct)
		s.trueIdeal = append(s.trueIdeal, ideal)
	}
	return s
}

func (s *scenario) readTopology(t testing.TB, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type node struct{ ID int32 }
	type cable struct {
		A, B      int32
		Bandwidth int64
		Delay     int64
	}
	var top struct {
		Planes [][]node
		Pods   []struct {
			Fabs  []node
			Racks []struct {
				Tor      node
				Hosts    []node
				Host2Tor []cable
			}
			Tor2Fab []cable
		}
		Fab2Spine []cable
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		t.Fatal(err)
	}
	var hosts []node
	cables := top.Fab2Spine
	for _, pod := range top.Pods {
		cables = append(cables, pod.Tor2Fab...)
		for _, rack := range pod.Racks {
			hosts = append(hosts, rack.Hosts...)
			cables = append(cables, rack.Host2Tor...)
		}
	}
	nodes := int32(0)
	for _, c := range cables {
		s.links = append(s.links, Link{c.A, c.B, c.Bandwidth, c.Delay}, Link{c.B, c.A, c.Bandwidth, c.Delay})
		nodes = max(nodes, c.A+1, c.B+1)
	}
	s.hosts = make([]bool, nodes)
	for _, h := range hosts {
		s.hosts[h.ID] = true
	}
}

// readColumns returns the integers of each column of a Parquet file.
func readColumns(t testing.TB, path string) map[string][]int64 {
	t.Helper()
	source, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := parquet.OpenFile(source, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]int64{}
	for _, group := range table.RowGroups() {
		rows := make([]parquet.Row, group.NumRows())
		reader := group.Rows()
		n, err := reader.ReadRows(rows)
		if err != nil && !errors.Is(err, io.EOF) || n < len(rows) {
			t.Fatalf("%s: %d of %d rows: %v", path, n, len(rows), err)
		}
		for i, field := range table.Schema().Fields() {
			kind := field.Type().Kind()
			if kind != parquet.Int64 && kind != parquet.Int32 {
				t.Fatalf("%s: column %s has type %s", path, field.Name(), field.Type())
			}
			for _, row := range rows {
				columns[field.Name()] = append(columns[field.Name()], row[i].Int64())
			}
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return columns
}

// route gives every flow a shortest path. Each node chooses by its own salted hash of the flow.
func (s *scenario) route(seed uint64) *Flows {
	links := make([][]int32, len(s.hosts)) // leaving each node
	for l, link := range s.links {
		links[link.SrcNode] = append(links[link.SrcNode], int32(l))
	}
	toward := map[int32][][]int32{} // per destination's switch: the choices at each node
	f := &Flows{SizeBytes: s.sizeBytes, StartNS: s.startNS}
	for i := range s.src {
		up := links[s.src[i]][0]
		down := links[s.dst[i]][0] ^ 1
		at := s.links[up].DstNode
		end := s.links[down].SrcNode
		if toward[end] == nil {
			toward[end] = s.choices(links, end)
		}
		f.PathLinks = append(f.PathLinks, up)
		for at != end {
			of := toward[end][at]
			l := of[mix(mix(seed, uint64(at)), uint64(i))%uint64(len(of))]
			f.PathLinks = append(f.PathLinks, l)
			at = s.links[l].DstNode
		}
		f.PathLinks = append(f.PathLinks, down)
		f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
	}
	return f
}

func (s *scenario) choices(links [][]int32, end int32) [][]int32 {
	far := make([]int, len(s.hosts))
	of := make([][]int32, len(s.hosts))
	queue := []int32{end}
	far[end] = 1
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, l := range links[at] {
			next := s.links[l].DstNode
			if s.hosts[next] {
				continue
			}
			if far[next] == 0 {
				far[next] = far[at] + 1
				queue = append(queue, next)
			}
			if far[next] == far[at]+1 {
				of[next] = append(of[next], l^1)
			}
		}
	}
	return of
}

// mix is splitmix64's finalizer over a sum (Steele et al., OOPSLA'14).
func mix(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (f *Flows) packetHops(p *simkernel.Params) (sum int64) {
	begin := int32(0)
	for i, end := range f.PathEnds {
		sum += p.Packets(f.SizeBytes[i]) * int64(end-begin)
		begin = end
	}
	return sum
}

// fcts runs the scenario on the paths of one seed.
func (s *scenario) fcts(t testing.TB, seed uint64) (fcts []int64, nsPerPacketHop float64) {
	t.Helper()
	flows := s.route(seed)
	fcts = make([]int64, len(s.src))
	params := s.params
	params.Seed = seed
	n, err := New(params, BufferParams{}, s.links, s.hosts, chunks(flows, 10_000))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	err = n.Run(context.Background(), 1, func(r *Results) error {
		for i, row := range r.Row {
			fcts[row] = r.FCTNS[i]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fcts, float64(time.Since(begin).Nanoseconds()) / float64(flows.packetHops(&params))
}

var netSizeBins = []int64{10_000, 100_000, 1_000_000, math.MaxInt64}

// slowdowns sorts the slowdowns of the flows with sizes in [low, high).
func (s *scenario) slowdowns(fcts []int64, low, high int64) []float64 {
	var x []float64
	for i, size := range s.sizeBytes {
		if size >= low && size < high && s.trueIdeal[i] > 0 {
			x = append(x, float64(fcts[i])/float64(s.trueIdeal[i]))
		}
	}
	slices.Sort(x)
	return x
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// TestNetworkAgainstNS3 compares Network with the paper's ns-3, on three scenarios and PARSIMON_SEEDS (3)
// draws of the paths of each. PARSIMON_LONG=47,1001 selects scenarios.
func TestNetworkAgainstNS3(t *testing.T) {
	long := os.Getenv("PARSIMON_LONG")
	if long == "" {
		t.Skip("takes minutes: make exact-accuracy")
	}
	seeds := 3
	ids := []int{47, 95, 1001}
	if long != "1" {
		ids = nil
		for _, word := range strings.Split(long, ",") {
			id, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	if k, err := strconv.Atoi(os.Getenv("PARSIMON_SEEDS")); err == nil {
		seeds = max(1, k)
	}
	for _, id := range ids {
		t.Run(strconv.Itoa(id), func(t *testing.T) {
			loadScenario(t, id, simkernel.DCTCP).against(t, seeds)
		})
	}
}

// TestTransportsAgainstNS3 compares the other transports, on two scenarios and PARSIMON_SEEDS (1) draws of
// the paths of each.
func TestTransportsAgainstNS3(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") != "1" {
		t.Skip("takes minutes: make exact-accuracy")
	}
	ids := []int{169, 47}
	seeds := 1
	if k, err := strconv.Atoi(os.Getenv("PARSIMON_SEEDS")); err == nil {
		seeds = max(1, k)
	}
	for _, kind := range []simkernel.Transport{simkernel.DCQCN, simkernel.TIMELY} {
		for _, id := range ids {
			t.Run(fmt.Sprintf("%v/%d", kind, id), func(t *testing.T) {
				loadScenario(t, id, kind).against(t, seeds)
			})
		}
	}
}

// against compares Network's results, for several random choices of paths, with ns-3's.
func (s *scenario) against(t *testing.T, seeds int) {
	var mean []float64
	for seed := range seeds {
		fcts, ns := s.fcts(t, uint64(seed))
		names, limits, errs := s.compare(fcts)
		line := fmt.Sprintf("seed %d, %.0f ns per packet-hop:", seed, ns)
		mean = append(mean, make([]float64, len(errs)-len(mean))...)
		for i, e := range errs {
			line += fmt.Sprintf(" %s %+.1f%%", names[i], 100*e)
			mean[i] += e / float64(seeds)
			if seed == seeds-1 && math.Abs(mean[i]) > limits[i] {
				t.Errorf("%s is %+.1f%% off, over %d seeds", names[i], 100*mean[i], seeds)
			}
		}
		t.Log(line)
	}
}

// compare returns the relative errors of the quantiles of slowdown, and their limits. ns-3 chose its own
// equal-cost paths, which are one draw of many, so the limits apply to the mean over seeds.
func (s *scenario) compare(fcts []int64) (names []string, limits, errs []float64) {
	add := func(name string, limit, q float64, low, high int64) {
		x := s.slowdowns(fcts, low, high)
		y := s.slowdowns(s.trueFCT, low, high)
		if len(y) > 1000 && float64(len(y))*(1-q) >= 10 {
			names = append(names, name)
			limits = append(limits, limit)
			errs = append(errs, quantile(x, q)/quantile(y, q)-1)
		}
	}
	add("p50", 0.025, 0.5, 0, math.MaxInt64)
	add("p90", 0.025, 0.9, 0, math.MaxInt64)
	add("p99", 0.025, 0.99, 0, math.MaxInt64)
	add("p99.9", 0.05, 0.999, 0, math.MaxInt64)
	low := int64(0)
	for _, high := range netSizeBins {
		add(fmt.Sprintf("p99 from %d bytes", low), 0.05, 0.99, low, high)
		low = high
	}
	return names, limits, errs
}
