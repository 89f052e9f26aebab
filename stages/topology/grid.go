package topology

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A grid is a small table as text, from CSV or Parquet. An empty cell is a null.
type grid struct {
	file   string
	column map[string]int
	rows   [][]string
	at     []string // where each row stands
}

func readGrid(path string) (*grid, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		return parseCSVGrid(path, data)
	case ".parquet":
		return parseParquetGrid(path, data)
	}
	return nil, fmt.Errorf("topology %s: want .csv or .parquet", path)
}

func newGrid(file string, header []string) (*grid, error) {
	g := &grid{file: file, column: map[string]int{}}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := g.column[name]; twice {
			return nil, fmt.Errorf("topology %s: two columns are named %q", file, name)
		}
		g.column[name] = i
	}
	return g, nil
}

func parseCSVGrid(file string, data []byte) (*grid, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.TrimLeadingSpace = true
	r.Comment = '#'
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("topology %s: is empty, want a header line", file)
	}
	if err != nil {
		return nil, fmt.Errorf("topology %s: %w", file, err)
	}
	g, err := newGrid(file, header)
	if err != nil {
		return nil, err
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return nil, fmt.Errorf("topology %s: %w", file, err) // names the line
		}
		line, _ := r.FieldPos(0)
		g.rows = append(g.rows, row)
		g.at = append(g.at, fmt.Sprintf("line %d", line))
	}
}

func parseParquetGrid(file string, data []byte) (g *grid, err error) {
	// The Parquet reader panics on some damaged files; to the user that is a damaged file.
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("topology %s: not a sound Parquet file: %v", file, p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("topology %s: not a sound Parquet file: %w", file, err)
	}
	var header []string
	for _, path := range f.Schema().Columns() {
		header = append(header, strings.Join(path, "."))
	}
	if g, err = newGrid(file, header); err != nil {
		return nil, err
	}
	buf := make([]parquet.Row, 256)
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				cells := make([]string, len(header))
				for _, v := range row {
					if v.IsNull() || v.Column() < 0 || v.Column() >= len(cells) {
						continue
					}
					cells[v.Column()] = v.String()
				}
				g.rows = append(g.rows, cells)
				g.at = append(g.at, fmt.Sprintf("row %d", len(g.rows)))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = rows.Close()
				return nil, fmt.Errorf("topology %s: %w", file, err)
			}
			if n == 0 {
				break
			}
		}
		if err := rows.Close(); err != nil {
			return nil, fmt.Errorf("topology %s: %w", file, err)
		}
	}
	return g, nil
}

// cell is the text in a row under the first of the names that the grid has as a column.
func (g *grid) cell(row int, names ...string) (text string, ok bool) {
	for _, name := range names {
		if i, has := g.column[name]; has {
			return strings.TrimSpace(g.rows[row][i]), true
		}
	}
	return "", false
}

func (g *grid) bad(row int, format string, args ...any) error {
	return fmt.Errorf("topology %s: %s: %s", g.file, g.at[row], fmt.Sprintf(format, args...))
}

// integer is a number that must stand there, unless missing says what to take instead.
func (g *grid) integer(row, bits int, missing *int64, names ...string) (int64, error) {
	text, ok := g.cell(row, names...)
	if !ok || text == "" {
		if missing != nil {
			return *missing, nil
		}
		if !ok {
			return 0, fmt.Errorf("topology %s: has no column %s", g.file, strings.Join(names, " or "))
		}
		return 0, g.bad(row, "%s is empty", names[0])
	}
	v, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, g.bad(row, "%s is %q, want a whole number", names[0], text)
	}
	return v, nil
}

// gridNetwork makes a network of the two tables.
func gridNetwork(nodes, links *grid) (*Network, error) {
	none := int64(-1)
	var b topologyBuilder
	for i := range nodes.rows {
		var v Node
		id, err := nodes.integer(i, 32, nil, "node_id", "id")
		if err != nil {
			return nil, err
		}
		pod, err := nodes.integer(i, 32, &none, "pod")
		if err != nil {
			return nil, err
		}
		rack, err := nodes.integer(i, 32, &none, "rack")
		if err != nil {
			return nil, err
		}
		kind, ok := nodes.cell(i, "kind")
		if !ok {
			return nil, fmt.Errorf("topology %s: has no column kind (host, tor, fabric, spine or switch)", nodes.file)
		}
		v.ID, v.Pod, v.Rack, v.Kind = int32(id), int32(pod), int32(rack), strings.ToLower(kind)
		v.Name, _ = nodes.cell(i, "name")
		b.nodes = append(b.nodes, v)
		b.nodeAt = append(b.nodeAt, nodes.at[i])
	}
	type seen struct {
		cable    int
		reversed bool
	}
	dirs := map[[2]int32]*seen{}
	var failed []int
	for i := range links.rows {
		var v [4]int64
		for k, names := range [][]string{{"src_node", "a"}, {"dst_node", "b"}, {"bandwidth_bps", "bandwidth"}, {"delay_ns", "delay"}} {
			bits := 64
			if k < 2 {
				bits = 32
			}
			x, err := links.integer(i, bits, nil, names...)
			if err != nil {
				return nil, err
			}
			v[k] = x
		}
		c := Cable{int32(v[0]), int32(v[1]), v[2], v[3]}
		down, _ := links.cell(i, "failed")
		isDown, err := strconv.ParseBool(down)
		if err != nil && down != "" {
			return nil, links.bad(i, "failed is %q, want true or false", down)
		}
		if first := dirs[[2]int32{c.B, c.A}]; first != nil && !first.reversed {
			first.reversed = true
			if d := b.cableList[first.cable]; d.BandwidthBps != c.BandwidthBps || d.DelayNS != c.DelayNS {
				return nil, links.bad(i, "the link %d → %d differs in bandwidth or delay from its other direction (%s); a cable has the same both ways", c.A, c.B, b.cableAt[first.cable])
			}
			if isDown {
				failed = append(failed, first.cable)
			}
			continue
		}
		dirs[[2]int32{c.A, c.B}] = &seen{cable: len(b.cableList)}
		if isDown {
			failed = append(failed, len(b.cableList))
		}
		b.cableList = append(b.cableList, c)
		b.cableAt = append(b.cableAt, links.at[i])
	}
	n, err := NewNetwork(b.nodes, b.cableList)
	if err != nil {
		return nil, inTopology(err, nodes.file, b.nodeAt, links.file, b.cableAt)
	}
	for _, c := range failed {
		n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
	}
	return n, nil
}
