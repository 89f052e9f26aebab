package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// Matrix has the relative weights of the traffic from each rack to each rack: finite, at least 0, and not all
// 0.
type Matrix struct {
	racks   int
	weights []float64 // row by row
}

// NewMatrix returns a matrix of weights; rows are sending racks. Errors name the row and the column.
func NewMatrix(rows [][]float64) (*Matrix, error) {
	return newMatrix(rows, func(i int) string { return fmt.Sprintf("row %d", i+1) })
}

func newMatrix(rows [][]float64, place func(row int) string) (*Matrix, error) {
	m := &Matrix{racks: len(rows)}
	sum := 0.0
	for i, row := range rows {
		if len(row) != len(rows) {
			return nil, fmt.Errorf("%s has %d weights, the matrix has %d rows", place(i), len(row), len(rows))
		}
		for j, w := range row {
			if !(w >= 0) || w > 1e300 {
				return nil, fmt.Errorf("%s, column %d: weight is %v, must be at least 0", place(i), j+1, w)
			}
			sum += w
		}
		m.weights = append(m.weights, row...)
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("the weights sum to %v, must be above 0 and finite", sum)
	}
	return m, nil
}

// Racks returns the number of rows and of columns.
func (m *Matrix) Racks() int { return m.racks }

// Weight returns the weight from rack i to rack j.
func (m *Matrix) Weight(i, j int) float64 { return m.weights[i*m.racks+j] }

// ReadMatrix reads a matrix from a file: .csv, with a line of numbers for each sending rack and no header, or
// .json, as {"matrix": {"inner": [[…], …]}}, where other keys are ignored, or as [[…], …].
func ReadMatrix(path string) (*Matrix, error) {
	data, err := topology.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("matrix: %w", err)
	}
	parse := map[string]func([]byte) (*Matrix, error){".csv": parseMatrixCSV,
		".json": parseMatrixJSON}[strings.ToLower(filepath.Ext(path))]
	if parse == nil {
		return nil, fmt.Errorf("matrix %s: want .csv or .json", path)
	}
	m, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("matrix %s: %w", path, err)
	}
	return m, nil
}

func parseMatrixCSV(data []byte) (*Matrix, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.TrimLeadingSpace = true
	r.Comment = '#'
	var rows [][]float64
	var lines []int // of the rows
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return newMatrix(rows, func(i int) string { return fmt.Sprintf("line %d", lines[i]) })
		}
		if err != nil {
			return nil, err // with the line
		}
		line, _ := r.FieldPos(0)
		row := make([]float64, len(cells))
		for j, c := range cells {
			if row[j], err = strconv.ParseFloat(strings.TrimSpace(c), 64); err != nil {
				return nil, fmt.Errorf("line %d, column %d: %q is not a number", line, j+1, c)
			}
		}
		rows = append(rows, row)
		lines = append(lines, line)
	}
}

func parseMatrixJSON(data []byte) (*Matrix, error) {
	var file struct {
		Matrix struct {
			Inner [][]float64 `json:"inner"`
		} `json:"matrix"`
	}
	to := any(&file)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		to = &file.Matrix.Inner
	}
	err := tree.Unmarshal(data, to)
	if err == nil && file.Matrix.Inner == nil {
		err = errors.New("has no matrix.inner")
	}
	if err != nil {
		return nil, err
	}
	return NewMatrix(file.Matrix.Inner)
}

// Kinds of matrices that NewMatrixOf creates. The last three imitate the spatial patterns of the paper's
// clusters (§4.1 and its figure of 32-rack samples; Roy et al., SIGCOMM'15, §4) as far as these are
// described. The numbers were chosen for this project.
const (
	MatrixUniform   = "uniform"   // equal weights from every rack to every other
	MatrixDatabase  = "database"  // matrix A
	MatrixWebServer = "webserver" // matrix B
	MatrixHadoop    = "hadoop"    // matrix C
)

// MatrixKinds lists all kinds.
var MatrixKinds = []string{MatrixUniform, MatrixDatabase, MatrixWebServer, MatrixHadoop}

// NewMatrixOf creates a matrix of a kind for pods × racksPerPod racks, numbered pod by pod. The same
// arguments give the same matrix.
//
// database (A): nearly all traffic leaves the rack, and weights depend little on the position of a rack.
// Three racks in ten are nearly idle and communicate with few others. The rest exchange log-normal amounts (σ
// 0.85: the busiest tenth of their pairs carries a third), equal in both directions, except for one pair in
// eight without traffic.
//
// webserver (B): each rack has a role. Two thirds are web servers, a quarter are caches, the rest have other
// roles. Web and cache racks communicate with each other and hardly among themselves (a hundredth or less).
// The weight of requests to caches is a third above that of responses. Every second pod has web racks only,
// and the others have all caches, so most cache traffic crosses pods. Popularity differs between caches (σ
// 0.45), and one rack in ten is spare, with a tenth of the traffic.
//
// hadoop (C): with 32 peers, half of a rack's traffic stays in the rack: the diagonal is 32 times the other
// weights, which are nearly uniform (σ 0.15, equal in both directions). One rack in thirty is nearly idle,
// and jobs that fit in a rack make some diagonals larger (σ 0.6).
func NewMatrixOf(kind string, pods, racksPerPod int, seed uint64) (*Matrix, error) {
	if pods < 1 || racksPerPod < 1 || pods > 4096 || racksPerPod > 4096 || pods*racksPerPod > 4096 {
		return nil, fmt.Errorf("matrix %s of %d pods × %d racks: must have 1 to 4,096 racks", kind, pods,
			racksPerPod)
	}
	n := pods * racksPerPod
	cell := func(i, j int) float64 {
		if i == j && n > 1 {
			return 0
		}
		return 1
	}
	switch kind {
	case MatrixDatabase:
		cell = databaseCell(seed)
	case MatrixWebServer:
		cell = webServerCell(pods, racksPerPod, seed)
	case MatrixHadoop:
		cell = hadoopCell(seed)
	case MatrixUniform:
	default:
		return nil, fmt.Errorf("unknown kind of matrix %q (%s)", kind, strings.Join(MatrixKinds, ", "))
	}
	rows := make([][]float64, n)
	for i := range rows {
		for j := range n {
			rows[i] = append(rows[i], cell(i, j))
		}
	}
	m, err := NewMatrix(rows)
	if err != nil { // all weights are 0, which can happen with a few racks
		return nil, fmt.Errorf("matrix %s of %d racks and seed %d: %w", kind, n, seed, err)
	}
	return m, nil
}

// drawPair returns the stream of a pair of racks, the same in both directions.
func drawPair(seed uint64, kind, i, j int) rng.Stream {
	return rng.New(seed, rng.Matrix, uint64(kind), uint64(min(i, j)), uint64(max(i, j)))
}

// databaseCell returns the weights of matrix A, described at NewMatrixOf. A cell depends only on the seed and
// its two racks, so a larger matrix has the same cells for the first racks.
func databaseCell(seed uint64) func(i, j int) float64 {
	idle := func(i int) bool {
		s := rng.New(seed, rng.Matrix, 1, uint64(i))
		return s.Float64() < 0.3 && i > 0 // at least rack 0 is not idle
	}
	return func(i, j int) float64 {
		s := drawPair(seed, 1, i, j)
		amount := math.Exp(0.85 * s.Normal())
		chance := s.Float64()
		switch {
		case i == j:
			return 0.02
		case idle(i) || idle(j):
			if chance < 0.25 {
				return 0.01 * amount
			}
			return 0
		case chance < 1.0/8:
			return 0
		}
		return amount
	}
}

// webServerCell returns the weights of matrix B, described at NewMatrixOf. The role of a rack depends on its
// position in the pod. If there is only one pod, it has all roles.
func webServerCell(pods, racksPerPod int, seed uint64) func(i, j int) float64 {
	const web, cache, other = 0, 1, 2
	role := func(i int) int {
		place := (float64(i%racksPerPod) + 0.5) / float64(racksPerPod)
		webs := 1.0 / 3
		caches := 1.0 / 2
		switch {
		case pods == 1:
			webs = 2.0 / 3
			caches = 1.0 / 4
		case i/racksPerPod%2 == 0:
			webs = 1
			caches = 0
		}
		switch {
		case place < webs:
			return web
		case place < webs+caches:
			return cache
		}
		return other
	}
	// Weights between roles, [sender][receiver], relative to the requests of a web rack to a cache rack.
	base := [3][3]float64{
		web:   {web: 0.001, cache: 1, other: 0.02},
		cache: {web: 0.75, cache: 0.006, other: 0.01},
		other: {web: 0.02, cache: 0.01, other: 0.03},
	}
	// Caches differ in popularity; spare racks have little traffic.
	popular := func(i int) float64 {
		s := rng.New(seed, rng.Matrix, 2, uint64(i))
		sigma := 0.05
		if role(i) == cache {
			sigma = 0.45
		}
		p := math.Exp(float64(sigma * s.Normal()))
		if s.Float64() < 0.1 {
			p *= 0.1
		}
		return p
	}
	return func(i, j int) float64 {
		s := drawPair(seed, 2, i, j)
		w := base[role(i)][role(j)] * popular(i) * popular(j) * math.Exp(0.05*s.Normal())
		if i == j {
			w *= 20 // traffic within the rack
		}
		return w
	}
}

// hadoopCell draws logs with mean 1: exp(σZ − σ²/2) has it, and 0.18 is σ²/2 for σ = 0.6.
func hadoopCell(seed uint64) func(i, j int) float64 {
	heat := func(i int) (peers, own float64) {
		s := rng.New(seed, rng.Matrix, 3, uint64(i))
		peers, own = 1, 32*math.Exp(float64(0.6*s.Normal())-0.18) // mean 32: 0.18 = σ²/2
		if s.Float64() < 1.0/30 {
			peers = 0.2
			own = own / 4
		}
		return peers, own
	}
	return func(i, j int) float64 {
		pi, own := heat(i)
		if i == j {
			return own
		}
		pj, _ := heat(j)
		s := drawPair(seed, 3, i, j)
		return pi * pj * math.Exp(0.15*s.Normal())
	}
}
