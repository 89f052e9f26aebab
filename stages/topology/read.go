package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// ReadTopology reads a network from files:
//
//   - FILE.json: pods, planes and cables as in the paper's public topologies, or plain "nodes" and
//     "links" lists
//   - FILE.txt: topology.txt of the HPCC simulator, see parseHPCC
//   - a directory with nodes.csv (or .parquet) and links.csv (or .parquet), or the two files with a
//     comma between them, nodes first
//
// Columns of nodes: node_id, kind, and optionally name, pod, rack. Columns of links: src_node and
// dst_node (or a and b), bandwidth_bps, delay_ns, and optionally failed; a cable may stand there
// once or, as in table links of the lake, once for each direction. Other columns are left alone.
//
// Errors name the file, and the line or row where one is to blame.
func Read(path string) (*Network, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 1 && strings.EqualFold(filepath.Ext(files[0]), ".txt") {
		return parseHPCC(files[0])
	}
	if len(files) == 1 {
		data, err := os.ReadFile(files[0])
		if err != nil {
			return nil, err
		}
		return parseJSON(files[0], data)
	}
	nodes, err := readGrid(files[0])
	if err != nil {
		return nil, err
	}
	links, err := readGrid(files[1])
	if err != nil {
		return nil, err
	}
	return gridNetwork(nodes, links)
}

// TopologyFiles are the files that ReadTopology reads for a path: one, or those of the nodes and
// of the links.
func Files(path string) ([]string, error) {
	if nodes, links, pair := strings.Cut(path, ","); pair {
		if _, err := os.Stat(path); err != nil {
			return []string{nodes, links}, nil
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	if !info.IsDir() {
		if ext := filepath.Ext(path); strings.EqualFold(ext, ".json") || strings.EqualFold(ext, ".txt") {
			return []string{path}, nil
		}
		return nil, fmt.Errorf("topology %s: want a .json file, topology.txt of the HPCC simulator, a directory with nodes and links, or NODES,LINKS as .csv or .parquet", path)
	}
	var files []string
	for _, table := range []string{"nodes", "links"} {
		found := ""
		for _, ext := range []string{".csv", ".parquet"} {
			name := filepath.Join(path, table+ext)
			if _, err := os.Stat(name); err != nil {
				continue
			}
			if found != "" {
				return nil, fmt.Errorf("topology %s: holds both %s and %s", path, filepath.Base(found), filepath.Base(name))
			}
			found = name
		}
		if found == "" {
			return nil, fmt.Errorf("topology %s: holds neither %s.csv nor %s.parquet", path, table, table)
		}
		files = append(files, found)
	}
	return files, nil
}

type jsonNode struct {
	ID   *int32 `json:"id"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	Pod  *int32 `json:"pod"`
	Rack *int32 `json:"rack"`
}

type jsonCable struct {
	A         *int32 `json:"a"`
	B         *int32 `json:"b"`
	Bandwidth *int64 `json:"bandwidth"`
	Delay     *int64 `json:"delay"`
}

type jsonTopology struct {
	Planes [][]jsonNode `json:"planes"`
	Pods   []struct {
		Fabs  []jsonNode `json:"fabs"`
		Racks []struct {
			Tor      jsonNode    `json:"tor"`
			Hosts    []jsonNode  `json:"hosts"`
			Host2Tor []jsonCable `json:"host2tor"`
		} `json:"racks"`
		Tor2Fab []jsonCable `json:"tor2fab"`
	} `json:"pods"`
	Fab2Spine []jsonCable `json:"fab2spine"`

	Nodes []jsonNode  `json:"nodes"`
	Links []jsonCable `json:"links"`
}

// parseTopologyJSON reads a JSON topology; file only names it in errors.
func parseJSON(file string, data []byte) (*Network, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("topology %s: is empty", file)
	}
	var t jsonTopology
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		at := dec.InputOffset()
		var syntax *json.SyntaxError
		var typ *json.UnmarshalTypeError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		} else if errors.As(err, &typ) {
			at = typ.Offset
			err = typeError(typ)
		} else if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			// Where it stands is not said; it is plain only if the key stands there once.
			err = fmt.Errorf("%s is no key here", key)
			if bytes.Count(data, []byte(key)) != 1 {
				return nil, fmt.Errorf("topology %s: %w", file, err)
			}
			at = int64(bytes.Index(data, []byte(key)))
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			at, err = int64(len(data)), errors.New("the file ends too early")
		}
		at = min(max(at, 0), int64(len(data)))
		return nil, fmt.Errorf("topology %s: line %d: %w", file, 1+bytes.Count(data[:at], []byte("\n")), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("topology %s: something stands after the topology", file)
	}
	var b topologyBuilder
	rack := int32(0)
	for p, pod := range t.Pods {
		in := func(format string, args ...any) string {
			return fmt.Sprintf("pods[%d].", p) + fmt.Sprintf(format, args...)
		}
		for r, k := range pod.Racks {
			for h, v := range k.Hosts {
				b.node(v, in("racks[%d].hosts[%d]", r, h), KindHost, closHostName(p, r, h), int32(p), rack)
			}
			b.node(k.Tor, in("racks[%d].tor", r), KindTor, closTorName(p, r), int32(p), rack)
			b.cables(k.Host2Tor, in("racks[%d].host2tor", r))
			rack++
		}
		for f, v := range pod.Fabs {
			b.node(v, in("fabs[%d]", f), KindFabric, closFabricName(p, f), int32(p), -1)
		}
		b.cables(pod.Tor2Fab, in("tor2fab"))
	}
	for f, plane := range t.Planes {
		for s, v := range plane {
			b.node(v, fmt.Sprintf("planes[%d][%d]", f, s), KindSpine, closSpineName(f, s), -1, -1)
		}
	}
	b.cables(t.Fab2Spine, "fab2spine")
	for i, v := range t.Nodes {
		place := func(p *int32) int32 {
			if p == nil {
				return -1
			}
			return *p
		}
		b.node(v, fmt.Sprintf("nodes[%d]", i), "", v.Name, place(v.Pod), place(v.Rack))
	}
	b.cables(t.Links, "links")
	if b.err != nil {
		return nil, fmt.Errorf("topology %s: %w", file, b.err)
	}
	n, err := NewNetwork(b.nodes, b.cableList)
	return n, inTopology(err, file, b.nodeAt, file, b.cableAt)
}

// typeError says in words what the JSON reader says in Go types.
func typeError(e *json.UnmarshalTypeError) error {
	want := "an object"
	switch e.Type.Kind() {
	case reflect.Slice:
		want = "a list"
	case reflect.String:
		want = "a string"
	case reflect.Int32:
		want = "a whole number of 32 bits"
	case reflect.Int64:
		want = "a whole number of 64 bits"
	}
	found := "a " + e.Value // string, or a number
	kind, number, hasNumber := strings.Cut(e.Value, " ")
	switch {
	case kind == "array":
		found = "a list"
	case kind == "object":
		found = "an object"
	case kind == "bool":
		found = "true or false"
	case hasNumber:
		found = number
	}
	if e.Field == "" {
		return fmt.Errorf("want %s, found %s", want, found)
	}
	return fmt.Errorf("%s: want %s, found %s", e.Field, want, found)
}

// A topologyBuilder collects nodes and cables with the places they come from, and the first error.
type topologyBuilder struct {
	nodes     []Node
	nodeAt    []string
	cableList []Cable
	cableAt   []string
	err       error
}

func (b *topologyBuilder) fail(at, format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
}

// node adds a node. kind is what its place in the file makes it, or empty to take the file's word.
func (b *topologyBuilder) node(v jsonNode, at, kind, name string, pod, rack int32) {
	if v.ID == nil {
		b.fail(at, "has no id")
		return
	}
	said := strings.ToLower(v.Kind)
	switch {
	case kind == "":
		kind = said
	case said != "" && said != kind && (said != KindSwitch || kind == KindHost):
		b.fail(at, "node %d stands where a %s belongs, and says it is a %q", *v.ID, kind, v.Kind)
	}
	b.nodes = append(b.nodes, Node{*v.ID, name, kind, pod, rack})
	b.nodeAt = append(b.nodeAt, at)
}

func (b *topologyBuilder) cables(list []jsonCable, at string) {
	for i, c := range list {
		observed := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case c.A == nil || c.B == nil:
			b.fail(observed, "needs both ends, a and b")
		case c.Bandwidth == nil:
			b.fail(observed, "has no bandwidth (bps)")
		case c.Delay == nil:
			b.fail(observed, "has no delay (ns)")
		default:
			b.cableList = append(b.cableList, Cable{*c.A, *c.B, *c.Bandwidth, *c.Delay})
			b.cableAt = append(b.cableAt, observed)
		}
	}
}

// inTopology names the file and place of the node or cable that NewNetwork refused.
func inTopology(err error, nodeFile string, nodeAt []string, cableFile string, cableAt []string) error {
	var bad *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad) && bad.Node >= 0:
		return fmt.Errorf("topology %s: %s: %w", nodeFile, nodeAt[bad.Node], err)
	case errors.As(err, &bad) && bad.Cable >= 0:
		return fmt.Errorf("topology %s: %s: %w", cableFile, cableAt[bad.Cable], err)
	}
	return fmt.Errorf("topology %s: %w", nodeFile, err)
}
