package workload

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// Matrix has the relative weights of the traffic from each rack to each rack: finite, at least 0, and not all 0.
type Matrix struct {
	racks   int
	weights []float64 // row by row
}

// NewMatrix returns a matrix of weights; rows are sending racks. Errors name the row and the column.
func NewMatrix(rows [][]float64) (*Matrix, error) {
	m := &Matrix{racks: len(rows)}
	sum := 0.0
	for i, row := range rows {
		if len(row) != len(rows) {
			return nil, fmt.Errorf("row %d has %d weights, the matrix has %d rows", i+1, len(row), len(rows))
		}
		for j, w := range row {
			if !(w >= 0) || w > 1e300 {
				return nil, fmt.Errorf("row %d, column %d: weight is %v, must be at least 0", i+1, j+1, w)
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

// ReadMatrix reads a matrix from a file: .csv, with a line of numbers for each sending rack and no header, or .json,
// as {"matrix": {"inner": [[…], …]}}, where other keys are ignored, or as [[…], …].
func ReadMatrix(path string) (*Matrix, error) {
	data, err := topology.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("matrix: %w", err)
	}
	var rows [][]float64
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		rows, err = parseMatrixCSV(data)
	case ".json":
		rows, err = parseMatrixJSON(data)
	default:
		err = errors.New("want .csv or .json")
	}
	if err == nil {
		var m *Matrix
		if m, err = NewMatrix(rows); err == nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("matrix %s: %w", path, err)
}

func parseMatrixCSV(data []byte) ([][]float64, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.TrimLeadingSpace, r.Comment, r.ReuseRecord = true, '#', true
	var rows [][]float64
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row := make([]float64, len(cells))
		for i, c := range cells {
			if row[i], err = strconv.ParseFloat(strings.TrimSpace(c), 64); err != nil {
				line, _ := r.FieldPos(i)
				return nil, fmt.Errorf("line %d, column %d: %q is not a number", line, i+1, c)
			}
		}
		rows = append(rows, row)
	}
}

func parseMatrixJSON(data []byte) ([][]float64, error) {
	var rows [][]float64
	if json.Unmarshal(data, &rows) == nil {
		return rows, nil
	}
	var file struct {
		Matrix struct {
			Inner [][]float64 `json:"inner"`
		} `json:"matrix"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if file.Matrix.Inner == nil {
		return nil, errors.New("has no matrix.inner")
	}
	return file.Matrix.Inner, nil
}
