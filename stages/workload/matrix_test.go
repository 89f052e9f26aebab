package workload_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/workload"
)

// matrixShape has the statistics by which two matrices are compared.
type matrixShape struct {
	density, intraRack, intraPod, topTenth, symmetry float64
	rows                                             []float64 // each rack's sum over the mean, ascending
}

func shapeOf(m *workload.Matrix, pods int) (s matrixShape) {
	n := m.Racks()
	var total, product, square, squareBack float64
	cells := make([]float64, 0, n*n)
	rows := make([]float64, n)
	for i := range n {
		for j := range n {
			w := m.Weight(i, j)
			cells = append(cells, w)
			total += w
			rows[i] += w
			if w > 0 {
				s.density += 1 / float64(n*n)
			}
			if i == j {
				s.intraRack += w
			} else if i*pods/n == j*pods/n {
				s.intraPod += w
			}
			product += w * m.Weight(j, i)
			square += w * w
			squareBack += m.Weight(j, i) * m.Weight(j, i)
		}
	}
	s.intraRack /= total
	s.intraPod /= total
	s.symmetry = product / math.Sqrt(square*squareBack)
	slices.Sort(cells)
	for _, w := range cells[n*n*9/10:] {
		s.topTenth += w / total
	}
	for i := range rows {
		rows[i] *= float64(n) / total
	}
	slices.Sort(rows)
	s.rows = rows
	return s
}

// Matrices have the properties of the paper's three clusters on which link loads depend.
func TestMatrixKinds(t *testing.T) {
	for _, size := range [][2]int{{2, 16}, {8, 48}} {
		pods := size[0]
		racks := size[1]
		n := pods * racks
		shape := func(kind string) matrixShape {
			m, err := workload.NewMatrixOf(kind, pods, racks, 1)
			if err != nil {
				t.Fatal(err)
			}
			if m.Racks() != n {
				t.Fatalf("%s: %d racks", kind, m.Racks())
			}
			s := shapeOf(m, pods)
			t.Logf("%s %d×%d: density %.2f, intra-rack %.3f, intra-pod %.3f, top tenth %.2f, symmetry %.3f, rows "+
				"%.3f %.2f %.2f %.2f %.2f", kind,
				pods, racks, s.density, s.intraRack, s.intraPod, s.topTenth, s.symmetry, s.rows[0], s.rows[n/4],
				s.rows[n/2], s.rows[n*3/4], s.rows[n-1])
			return s
		}
		a := shape(workload.MatrixDatabase)
		if a.density > 0.8 || a.intraRack > 0.01 || a.rows[n/10] > 0.1 || a.symmetry < 0.99 {
			t.Errorf("database: want sparse, inter-rack, symmetric, some racks idle")
		}
		b := shape(workload.MatrixWebServer)
		if b.intraRack > 0.03 || b.intraPod > 0.3 || b.topTenth < 0.35 || b.rows[n-1] < 1.5 {
			t.Errorf("webserver: want little in the rack or pod, and few racks with most traffic")
		}
		c := shape(workload.MatrixHadoop)
		want := 32 / (32 + float64(n-1))
		if c.intraRack < 0.75*want || c.intraRack > 1.35*want || c.density < 0.999 || c.symmetry < 0.99 {
			t.Errorf("hadoop: want %.2f in the rack, have %.2f", want, c.intraRack)
		}
	}
}

// All of these properties have the same order of magnitude as in the published matrices.
func TestMatrixKindsAreClose(t *testing.T) {
	for kind, file := range map[string]string{workload.MatrixDatabase: "cluster_a_2_16.json",
		workload.MatrixWebServer: "cluster_b_2_16.json", workload.MatrixHadoop: "cluster_c_2_16.json"} {
		theirs, err := workload.ReadMatrix(sharedFile(t, "matrices", file))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := workload.NewMatrixOf(kind, 2, 16, 1)
		if err != nil {
			t.Fatal(err)
		}
		a := shapeOf(ours, 2)
		b := shapeOf(theirs, 2)
		t.Logf("%s: %+v\n theirs: %+v", kind, a, b)
		if math.Abs(a.density-b.density) > 0.15 || math.Abs(a.intraRack-b.intraRack) > 0.1 ||
			math.Abs(a.topTenth-b.topTenth) > 0.12 {
			t.Errorf("%s: density %.2f, in the rack %.3f, top tenth %.2f; published: %.2f, %.3f, %.2f", kind,
				a.density, a.intraRack, a.topTenth, b.density, b.intraRack, b.topTenth)
		}
	}
}

func TestMatrixIsDeterministic(t *testing.T) {
	for _, kind := range []string{workload.MatrixUniform, workload.MatrixDatabase, workload.MatrixWebServer,
		workload.MatrixHadoop} {
		a, err := workload.NewMatrixOf(kind, 2, 5, 8)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := workload.NewMatrixOf(kind, 2, 5, 8)
		c, _ := workload.NewMatrixOf(kind, 2, 5, 9)
		if !reflect.DeepEqual(a, b) || kind != workload.MatrixUniform && reflect.DeepEqual(a, c) {
			t.Errorf("%s: the matrix does not depend on the seed alone", kind)
		}
		for _, size := range [][2]int{{1, 1}, {1, 2}, {3, 1}} {
			if _, err := workload.NewMatrixOf(kind, size[0], size[1], 1); err != nil {
				t.Errorf("%s %v: %v", kind, size, err)
			}
		}
	}
	uniform := workload.MatrixUniform
	if _, err := workload.NewMatrixOf(uniform, 64, 64, 1); err != nil {
		t.Errorf("4,096 racks: %v", err)
	}
	for _, size := range [][2]int{{0, 1}, {1, 0}, {4097, 1}, {1, 4097}, {17, 241}} {
		if _, err := workload.NewMatrixOf(uniform, size[0], size[1], 1); err == nil {
			t.Errorf("%v pods and racks: no error", size)
		}
	}
	if _, err := workload.NewMatrixOf("blob", 1, 1, 1); err == nil {
		t.Error("unknown kind: no error")
	}
}

func TestReadMatrix(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range map[string]string{
		"a.csv":  "# two racks\n0, 1.5\n2, 0\n",
		"b.json": "[[0, 1.5], [2, 0]]",
		"c.json": `{"matrix": {"inner": [[0, 1.5], [2, 0]], "idx2name": {}}, "nr_racks": 2}`,
	} {
		m, err := workload.ReadMatrix(file(name, text))
		if err != nil || m.Weight(0, 1) != 1.5 || m.Weight(1, 0) != 2 || m.Weight(1, 1) != 0 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for _, c := range [][3]string{
		{"d.csv", "1,2\n3\n", "line 2"},
		{"e.csv", "1,2\n3,x\n", `line 2, column 2: "x"`},
		{"f.csv", "1,2\n", "line 1 has 2 weights"},
		{"g.csv", "0,0\n0,0\n", "sum to 0"},
		{"h.csv", "# weights\n\n0,-1\n0,0\n", "line 3, column 2"},
		{"i.json", "{}", "matrix.inner"},
		{"j.json", "{", "JSON"},
		{"k.txt", "1", "want .csv or .json"},
		{"l.csv", "NaN", "weight is NaN"},
	} {
		if _, err := workload.ReadMatrix(file(c[0], c[1])); err == nil || !strings.Contains(err.Error(), c[2]) ||
			!strings.Contains(err.Error(), c[0]) {
			t.Errorf("%s: error %v, want %q", c[0], err, c[2])
		}
	}
}

// Every second pod of a web server cluster has web racks only, which hardly communicate among themselves.
// Otherwise cache traffic would stay within pods, and the links between pods would be idle.
func TestEverySecondPodHasNoCaches(t *testing.T) {
	const pods = 6
	const racks = 8
	m := mustMatrix(t, "webserver", pods, racks)
	var within [pods]float64
	for pod := range pods {
		for i := range racks {
			for j := range racks {
				within[pod] += m.Weight(pod*racks+i, pod*racks+j)
			}
		}
	}
	for pod := 0; pod < pods; pod += 2 {
		if within[pod] > within[pod+1]/10 {
			t.Errorf("pod %d has a weight of %v within, pod %d %v", pod, within[pod], pod+1, within[pod+1])
		}
	}
}

// Racks of a web server cluster have the roles that their pods give them: with a single pod, two thirds are
// web servers and a quarter are caches, and else every second pod has a third and a half. A rack's role shows
// in what it sends to a web rack and to a cache rack: 0.001 to 1 as a web rack, 0.75 to 0.006 as a cache.
func TestRolesOfWebServerRacks(t *testing.T) {
	for _, c := range []struct {
		pods, racks, aWeb, aCache int
		want                      string
	}{
		{1, 12, 1, 9, "wwwwwwwwccco"},
		{3, 12, 1, 17, "wwwwwwwwwwww" + "wwwwccccccoo" + "wwwwwwwwwwww"},
	} {
		m := mustMatrix(t, "webserver", c.pods, c.racks)
		got := ""
		for i := range c.pods * c.racks {
			to := [2]int{c.aWeb, c.aCache}
			if i == c.aWeb {
				to[0]++ // traffic within a rack is larger
			}
			if i == c.aCache {
				to[1]--
			}
			ratio := m.Weight(i, to[0]) / m.Weight(i, to[1])
			switch {
			case ratio < 0.04:
				got += "w"
			case ratio > 15:
				got += "c"
			default:
				got += "o"
			}
		}
		if got != c.want {
			t.Errorf("%d pods of %d racks have the roles %s, want %s", c.pods, c.racks, got, c.want)
		}
	}
}

// Weights are finite and at least 0, so that their sum is finite. Errors name the place.
func TestLimitsOfWeights(t *testing.T) {
	for _, c := range []struct {
		rows [][]float64
		want string // "": they are accepted
	}{
		{[][]float64{{1e300, 0}, {0, 1e-300}}, ""},
		{[][]float64{{0, 0}, {0, 1.1e300}}, "row 2, column 2: weight is 1.1e+300"},
		{[][]float64{{0, 1}, {-1, 0}}, "row 2, column 1: weight is -1"},
		{[][]float64{{0, 1}, {1}}, "row 2 has 1 weights, the matrix has 2 rows"},
		{[][]float64{{0}}, "sum to 0"},
		{nil, "sum to 0"},
	} {
		m, err := workload.NewMatrix(c.rows)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.rows, err, c.want)
		}
		if err == nil && (m.Racks() != 2 || m.Weight(1, 1) != 1e-300) {
			t.Errorf("%v: %d racks, a weight of %v", c.rows, m.Racks(), m.Weight(1, 1))
		}
	}
}
