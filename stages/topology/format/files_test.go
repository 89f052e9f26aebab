package format

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// The descriptions build the networks of the paper, with the same ids, names, links and numbers.
func TestClosIsTheReference(t *testing.T) {
	for file, spec := range map[string]topology.ClosSpec{
		"cluster_1_to_1.json":         topologytest.SmallClos(1),
		"cluster_2_to_1.json":         topologytest.SmallClos(2),
		"cluster_4_to_1.json":         topologytest.SmallClos(4),
		"large_cluster_b.json":        topologytest.LargeClos(1),
		"large_cluster_b_2_to_1.json": topologytest.LargeClos(2),
	} {
		want, err := Read(sharedFile(t, "topologies", file))
		if err != nil {
			t.Fatal(err)
		}
		sameNetwork(t, file, topologytest.MustClos(t, spec), want)
	}
}

func sameNetwork(t *testing.T, what string, got, want *topology.Network) {
	t.Helper()
	if len(got.Nodes) != len(want.Nodes) || len(got.Links) != len(want.Links) {
		t.Fatalf(
			"%s: %d nodes and %d links, want %d and %d",
			what,
			len(got.Nodes),
			len(got.Links),
			len(want.Nodes),
			len(want.Links),
		)
	}
	for i := range want.Nodes {
		if got.Nodes[i] != want.Nodes[i] {
			t.Fatalf("%s: node %+v, want %+v", what, got.Nodes[i], want.Nodes[i])
		}
	}
	for i := range want.Links {
		if got.Links[i] != want.Links[i] {
			t.Fatalf("%s: link %+v, want %+v", what, got.Links[i], want.Links[i])
		}
	}
}

const tinyJSON = `{
  "planes": [[{"id": 4, "kind": "Switch"}]],
  "pods": [{
    "fabs": [{"id": 3, "kind": "Switch"}],
    "racks": [{
      "tor": {"id": 2, "kind": "Switch"},
      "hosts": [{"id": 0, "kind": "Host"}, {"id": 1, "kind": "Host"}],
      "host2tor": [{"a": 0, "b": 2, "bandwidth": 10000000000, "delay": 1000},
                   {"a": 1, "b": 2, "bandwidth": 10000000000, "delay": 1000}]
    }],
    "tor2fab": [{"a": 2, "b": 3, "bandwidth": 40000000000, "delay": 1000}]
  }],
  "fab2spine": [{"a": 3, "b": 4, "bandwidth": 40000000000, "delay": 1000}]
}`

func TestTopologyJSON(t *testing.T) {
	n, err := parseJSON("tiny.json", []byte(tinyJSON))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := n.Node(1)
	if v != (topology.Node{ID: 1, Name: "pod0-rack0-host1", Kind: topology.KindHost, Pod: 0, Rack: 0}) {
		t.Errorf("node 1 is %+v", v)
	}
	plain := `{"nodes": [{"id": 0, "kind": "Host", "name": "web"}, {"id": 5, "kind": "Switch"}], "links": [{"a": 0, "b": 5, "bandwidth": 1000000, "delay": 0}]}`
	if n, err = parseJSON("plain.json", []byte(plain)); err != nil || n.Nodes[0].Name != "web" {
		t.Errorf("plain lists: %v", err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"fab2spine": [`, `"fab2spine": [[`, "line 14: not readable as JSON"},
		{`"delay": 1000},`, `"delay": "1us"},`, "line 8"},
		{`{"a": 3, "b": 4,`, `{"a": 3, "b": 9,`, "fab2spine[0]: cable 3:9: no node has the id 9"},
		{`{"a": 3, "b": 4,`, `{"a": 3,`, "fab2spine[0]: has no b"},
		{`"b": 3, "bandwidth": 40000000000,`, `"b": 3,`, "tor2fab[0]: has no bandwidth"},
		{`{"id": 4, "kind": "Switch"}`, `{"kind": "Switch"}`, "planes[0][0]: has no id"},
		{`{"id": 4, "kind": "Switch"}`, `{"id": 4, "kind": "Host"}`, "where a spine belongs"},
		{`{"id": 4,`, `{"id": 3,`, "node 3 is listed twice"},
		{`"planes"`, `"plains"`, "line 2: plains: is an unknown key"},
		{`"id": 3,`, `"id": 3, "delay": 1,`, "line 4: pods[0].fabs[0].delay: is an unknown key"},
		{`"pods": [{`, `"pods": "many", "x": [{`, "pods: is \"many\", want a list"},
		{`"delay": 1000},`, `"delay": 1.5},`, `delay: is "1.5", want a whole number`},
		{`{"id": 4,`, `{"id": 4000000000,`, "id: is 4000000000, must be -1 to 2147483647"},
		{`{"id": 4,`, `{"id": [4],`, "id: is a list, want a single value"},
		{`{"id": 4, "kind": "Switch"}`, `true`, "planes[0][0]: is true, want keys and values"},
		{`"kind": "Switch"}`, `"kind": {}}`, "kind: is an object, want a single value"},
		{tinyJSON, "[1]", "line 1: is a list, want keys and values"},
		{tinyJSON, " \n", "is empty"},
		{tinyJSON, tinyJSON[:len(tinyJSON)/2], "the file ends too early"},
	} {
		bad := strings.Replace(tinyJSON, c.old, c.new, 1)
		if _, err := parseJSON("tiny.json", []byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "tiny.json") ||
			strings.Contains(err.Error(), "Go ") ||
			strings.Contains(err.Error(), " json:") ||
			strings.Contains(err.Error(), "struct") ||
			strings.Contains(err.Error(), "int") {
			t.Errorf("%s → %s: error %v, want %q", c.old, c.new, err, c.want)
		}
	}
}

const tinyNodes = "node_id,name,kind,pod,rack\n0,a,host,0,0\n1,b,host,0,0\n2,,tor,0,0\n"

func writeTopology(t *testing.T, nodes, links string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"nodes.csv": nodes, "links.csv": links} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTopologyCSV(t *testing.T) {
	once := writeTopology(
		t,
		tinyNodes,
		"a,b,bandwidth_bps,delay_ns\n0,2,10000000000,1000\n1,2,10000000000,1000\n",
	)
	both := writeTopology(t, tinyNodes, "link_id,src_node,dst_node,bandwidth_bps,delay_ns,tier,failed\n"+
		"0,0,2,10000000000,1000,host-tor,false\n1,2,0,10000000000,1000,tor-host,false\n2,1,2,10000000000,1000,host-tor,true\n3,2,1,10000000000,1000,tor-host,true\n")
	a, err := Read(once)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(filepath.Join(both, "nodes.csv") + "," + filepath.Join(both, "links.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Fail(1, 2); err != nil {
		t.Fatal(err)
	}
	sameNetwork(t, "one row a cable and one a link", a, b)

	for _, c := range []struct{ nodes, links, want string }{
		{tinyNodes, "a,b,bandwidth_bps,delay_ns\n0,2,1e9,0\n", "links.csv: line 2: bandwidth_bps is \"1e9\""},
		{tinyNodes, "a,b,bandwidth_bps,delay_ns\n\n0,3,1000000,0\n",
			"links.csv: line 3: cable 0:3: no node has the id 3"},
		{tinyNodes, "a,b,delay_ns\n0,2,0\n", "links.csv: line 1: has no column bandwidth_bps"},
		{tinyNodes, "a,b,bandwidth_bps,delay_ns\n0,2,1000000,0\n2,0,2000000,0\n", "line 3: the link 2 → 0 differs"},
		{tinyNodes, "a,b,bandwidth_bps,delay_ns\n0,2,1000000,0,4\n", "line 2: has 5 columns, the header has 4"},
		{"node_id,kind\n0,host\n0,tor\n", "a,b,bandwidth_bps,delay_ns\n",
			"nodes.csv: line 3: node 0 is listed twice"},
		{"node_id\n0\n", "a,b,bandwidth_bps,delay_ns\n", "nodes.csv: line 1: has no column kind"},
		{"", "a,b\n", "nodes.csv: line 1: is empty"},
	} {
		if _, err := Read(writeTopology(t, c.nodes, c.links)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: error %v, want %q", c.nodes, c.links, err, c.want)
		}
	}
	for _, path := range []string{"nowhere", t.TempDir(), "a.csv,b.csv"} {
		if _, err := Read(path); err == nil {
			t.Errorf("Read(%q): no error", path)
		}
	}
}

type parquetNode struct {
	NodeID int32  `parquet:"node_id"`
	Name   string `parquet:"name"`
	Kind   string `parquet:"kind"`
	Pod    *int32 `parquet:"pod,optional"`
	Rack   *int32 `parquet:"rack,optional"`
}

type parquetLink struct {
	Src   int32 `parquet:"src_node"`
	Dst   int32 `parquet:"dst_node"`
	Bps   int64 `parquet:"bandwidth_bps"`
	Delay int64 `parquet:"delay_ns"`
	Down  bool  `parquet:"failed"`
}

func parquetFile[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTopologyParquet(t *testing.T) {
	want := topologytest.MustClos(t, topologytest.SmallClos(4))
	if err := want.Fail(288, 292); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var nodes []parquetNode
	for _, v := range want.Nodes {
		row := parquetNode{NodeID: v.ID, Name: v.Name, Kind: v.Kind}
		if v.Pod >= 0 {
			row.Pod = &v.Pod
		}
		if v.Rack >= 0 {
			row.Rack = &v.Rack
		}
		nodes = append(nodes, row)
	}
	var links []parquetLink
	for _, l := range want.Links {
		links = append(links, parquetLink{l.Src, l.Dst, l.BandwidthBps, l.DelayNS, l.Failed})
	}
	parquetFile(t, filepath.Join(dir, "nodes.parquet"), nodes)
	parquetFile(t, filepath.Join(dir, "links.parquet"), links)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameNetwork(t, "through Parquet", got, want)

	data, err := os.ReadFile(filepath.Join(dir, "links.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(data); cut += 97 {
		if parseParquet(&draft{}, "cut.parquet", data[:cut]) != nil {
			t.Fatalf("a Parquet file cut at byte %d reads without error", cut)
		}
	}
	large := &table{
		headers: []string{"a"},
		bytes:   topology.MaxFileBytes - 20,
	} // a dictionary makes many rows of few bytes
	if n, err := large.WriteRows([]parquet.Row{{parquet.ValueOf("1234")}, {}}); n != 0 || err == nil ||
		len(large.rows) != 1 {
		t.Errorf("%d rows, %d kept, %v", n, len(large.rows), err)
	}
}

// A null in a node is a missing key, except for the id.
func TestNullsOfNodes(t *testing.T) {
	text := strings.Replace(
		tinyJSON,
		`{"id": 0, "kind": "Host"}`,
		`{"id": 0, "kind": null, "name": null, "pod": null, "rack": null}`,
		1,
	)
	n, err := parseJSON("null.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want, err := parseJSON("tiny.json", []byte(tinyJSON))
	if err != nil {
		t.Fatal(err)
	}
	sameNetwork(t, "null.json", n, want)
	_, err = parseJSON("id.json", []byte(strings.Replace(tinyJSON, `"id": 0`, `"id": null`, 1)))
	if err == nil || !strings.Contains(err.Error(), "pods[0].racks[0].hosts[0].id: is empty") {
		t.Errorf("null id: %v", err)
	}
}

func FuzzTopologyJSON(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"id":null,"kind":null,"name":null},null],"links":[{"a":null},null]}`))
	f.Add([]byte(tinyJSON))
	f.Add([]byte(`{"nodes":[{"id":0,"kind":"host"}],"links":[{"a":0,"b":0,"bandwidth":1,"delay":1}]}`))
	f.Add([]byte(`{"pods":[{}]}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseJSON("fuzz.json", data)
		if (n == nil) == (err == nil) {
			t.Fatalf("network %v, error %v", n, err)
		}
		if err == nil {
			if _, err := topology.NewRouter(t.Context(), n, 1); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzTopologyCSV(f *testing.F) {
	f.Add(tinyNodes, "a,b,bandwidth_bps,delay_ns\n0,2,10000000000,1000\n1,2,10000000000,1000\n")
	f.Add(
		tinyNodes,
		"src_node,dst_node,bandwidth_bps,delay_ns,failed\n0,2,10000,0,true\n2,0,10000,0,true\n1,2,10000,0,\n",
	)
	f.Add("", "\n")
	f.Fuzz(func(t *testing.T, nodes, links string) {
		files := map[string][]byte{"nodes.csv": []byte(nodes), "links.csv": []byte(links)}
		checkDraft(t, draftOf((*draft).readTables, files, "nodes.csv", "links.csv"))
	})
}

// sharedFile returns a file of the reference data, which some machines have beside the repository. If it is
// missing, the test is skipped.
func sharedFile(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "..", "shared", "reference"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data is missing: %v", err)
	}
	return path
}
