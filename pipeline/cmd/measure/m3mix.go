package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An m3Mix is one of m3's published scenarios. Its load is that of the link with the most flows per Gbps under the ECMP
// of their simulator, whose switches all hash alike.
type m3Mix struct {
	ID      int     `json:"id"`
	Spatial string  `json:"spatial"`
	Sizes   string  `json:"size_dist"`
	Sigma   float64 `json:"lognorm_sigma"`
	MaxLoad float64 `json:"max_load"`
	Cluster string  `json:"cluster"`
	Window  int64   `json:"window"`
	MarkKB  float64 `json:"param_1"` // threshold at 10 Gbps; they use its whole part
}

func (m *m3Mix) oversubscription() int {
	n, _ := strconv.Atoi(regexp.MustCompile(`cluster_(\d)`).FindStringSubmatch(m.Cluster + "cluster_0")[1])
	return n
}

func (m *m3Mix) matrixName() string { return strings.TrimSuffix(path.Base(m.Spatial), ".json") }

// matrix is A, B or C.
func (m *m3Mix) matrix() string { return strings.ToUpper(m.matrixName()[len("cluster_"):][:1]) }

func (m *m3Mix) sizes() string { return strings.TrimSuffix(path.Base(m.Sizes), "-all.txt") }

// m3Scenarios are the mixes of the shared folder by id, p99 of their slowdown in ns-3 (all flows, then by size), and
// the published errors of Parsimon and m3.
type m3Scenarios struct {
	mixes     map[string]m3Mix
	truth     map[string][]float64
	published map[string][]float64
}

func (b *bench) readM3() *m3Scenarios {
	s := &m3Scenarios{mixes: map[string]m3Mix{}}
	text, err := os.ReadFile(b.sharedPath("reference", "published", "m3-mixes.json"))
	b.fail(err)
	var all []m3Mix
	b.decode(string(text), &all)
	for _, m := range all {
		s.mixes[strconv.Itoa(m.ID)] = m
	}
	s.truth = b.columnsByID("m3-truth.csv", "ns3_p99_all", "ns3_p99_lt1k", "ns3_p99_1k_10k", "ns3_p99_10k_50k",
		"ns3_p99_gt50k")
	s.published = b.columnsByID("m3-dctcp-192.csv", "p99__ns3__pmn_m", "p99__ns3__mlsys")
	for id := range s.mixes {
		if s.truth[id] == nil || s.published[id] == nil {
			b.fail(fmt.Errorf("mix %s has no truth or no published errors", id))
		}
	}
	return s
}

// columnsByID reads columns of a published table by column id.
func (b *bench) columnsByID(file string, names ...string) map[string][]float64 {
	f, err := os.Open(b.sharedPath("reference", "published", file))
	if err != nil {
		b.fail(err)
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	rows, err := csv.NewReader(f).ReadAll()
	b.fail(err)
	byID := map[string][]float64{}
	for i := 1; i < len(rows); i++ {
		for _, name := range names {
			at := slices.Index(rows[0], name)
			if at < 0 {
				b.fail(fmt.Errorf("%s has no column %s", file, name))
				return nil
			}
			byID[rows[i][0]] = append(byID[rows[i][0]], b.parse(rows[i][at]))
		}
	}
	return byID
}

// ids lists the mixes by number.
func (s *m3Scenarios) ids() []string {
	return slices.SortedFunc(maps.Keys(s.mixes),
		func(a, b string) int { return cmp.Compare(s.mixes[a].ID, s.mixes[b].ID) })
}

// stratified returns one mix of each combination of oversubscription, matrix and sizes, those of the largest
// combinations, up to a number of them; by number. Of a combination it takes the one of median load.
func (s *m3Scenarios) stratified(most int) (ids []string) {
	strata := map[string][]m3Mix{}
	for _, id := range s.ids() {
		m := s.mixes[id]
		key := fmt.Sprint(m.oversubscription(), m.matrix(), m.sizes())
		strata[key] = append(strata[key], m)
	}
	keys := slices.SortedFunc(maps.Keys(strata), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(strata[b]), len(strata[a])), cmp.Compare(a, b))
	})
	var chosen []int
	for _, key := range keys[:min(most, len(keys))] {
		mixes := strata[key]
		slices.SortStableFunc(mixes, func(a, b m3Mix) int { return cmp.Compare(a.MaxLoad, b.MaxLoad) })
		chosen = append(chosen, mixes[len(mixes)/2].ID)
	}
	slices.Sort(chosen)
	for _, id := range chosen {
		ids = append(ids, strconv.Itoa(id))
	}
	return ids
}

// m3Matrix reads the mix's matrix, with its racks pod by pod as in the topologies.
func (b *bench) m3Matrix(m m3Mix) (inner [][]float64, podOf []int) {
	text, err := os.ReadFile(b.sharedPath("reference", "matrices", m.matrixName()+".json"))
	b.fail(err)
	var file struct {
		Matrix struct {
			Inner    [][]float64 `json:"inner"`
			Idx2Name []any       `json:"idx2name"`
		} `json:"matrix"`
		Pod2Tors map[string][]any `json:"pod2tors"`
	}
	if b.decode(string(text), &file); b.err != nil {
		return nil, nil
	}
	pods := map[string]int{}
	for k, pod := range slices.Sorted(maps.Keys(file.Pod2Tors)) {
		for _, rack := range file.Pod2Tors[pod] {
			pods[fmt.Sprint(rack)] = k
		}
	}
	order := make([]int, len(file.Matrix.Inner))
	for i := range order {
		order[i] = i
	}
	pod := func(i int) int { return pods[fmt.Sprint(file.Matrix.Idx2Name[i])] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(pod(a), pod(b)) })
	for _, i := range order {
		row := make([]float64, len(order))
		for k, j := range order {
			row[k] = file.Matrix.Inner[i][j]
		}
		inner, podOf = append(inner, row), append(podOf, pod(i))
	}
	return inner, podOf
}

// m3LinkShares returns the largest share of all flows on a link per Gbps: with even ECMP, and with theirs, which leaves
// links between fabric and spine switches unused where their number is a multiple of the planes.
func (b *bench) m3LinkShares(m m3Mix) (even, polarised float64) {
	const hosts, planes, hostGbps, fabricGbps = 8, 2, 10, 40
	inner, podOf := b.m3Matrix(m)
	var total float64
	out, in := make([]float64, len(inner)), make([]float64, len(inner))  // of a rack
	up, down := make([]float64, len(inner)), make([]float64, len(inner)) // likewise, to and from other racks
	between := map[[2]int]float64{}
	for i, row := range inner {
		for j, w := range row {
			total += w
			out[i], in[j] = out[i]+w, in[j]+w
			if i != j {
				up[i], down[j] = up[i]+w, down[j]+w
			}
			if podOf[i] != podOf[j] {
				between[[2]int{podOf[i], podOf[j]}] += w
			}
		}
	}
	if b.err != nil || total == 0 {
		return 1, 1
	}
	host := max(slices.Max(out), slices.Max(in)) / hosts / hostGbps
	rack := max(slices.Max(up), slices.Max(down)) / planes / fabricGbps
	spines := map[int]int{1: 16, 2: 8, 4: 4}[m.oversubscription()] // of a plane
	spine := slices.Max(slices.Collect(maps.Values(between))) / planes / float64(spines) / fabricGbps
	theirs := spine
	if spines%planes == 0 {
		theirs *= planes
	}
	return max(host, rack, spine) / total, max(host, rack, theirs) / total
}

// m3Scenario writes the mix's scenario file.
func (b *bench) m3Scenario(m m3Mix, flows int, load float64) string {
	inner, _ := b.m3Matrix(m)
	matrix, err := json.Marshal(map[string]any{"matrix": map[string]any{"inner": inner}})
	b.fail(err)
	return b.file("m3.yaml", fmt.Sprintf(`
name: m3-%d
topology: {file: %q}
workload:
  max_load: %.9f
  flows_count: %d
  services:
    - {name: all, matrix: %q, sizes: %q, arrivals: lognormal, sigma: %g}
transport: {kind: dctcp, window: %dB, gain: 0.0625, additive_increase: 615Mbps, min_rate: 1Gbps, mark_per_gbps: %dB}
`, m.ID, b.sharedPath("reference", "topologies", fmt.Sprintf("cluster_%d_to_1.json", m.oversubscription())), load, flows,
		b.file("m3-matrix.json", string(matrix)), b.sharedPath("reference", "sizes", path.Base(m.Sizes)), m.Sigma,
		m.Window, 100*int64(m.MarkKB)))
}
