package report

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// linkRows are the links of a network as question link_load_and_tail gives them: both directions of each cable.
type linkRows struct {
	out   *answer
	nodes map[string][]any // by name: node, kind, pod, rack
}

func newLinkRows() *linkRows {
	return &linkRows{nodes: map[string][]any{}, out: &answer{columns: []string{"link_id", "tier", "failed", "load", "tail_share", "flows",
		"src_node", "src_name", "src_kind", "src_pod", "src_rack", "dst_node", "dst_name", "dst_kind", "dst_pod", "dst_rack"}}}
}

// node adds a node; pod and rack are nil or int64.
func (l *linkRows) node(name, kind string, pod, rack any) {
	l.nodes[name] = []any{int64(len(l.nodes)), name, kind, pod, rack}
}

func (l *linkRows) cable(a, b string, load, share float64) {
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		row := []any{int64(len(l.out.rows)), l.nodes[ends[0]][2].(string) + "-" + l.nodes[ends[1]][2].(string), false, load, share, int64(10)}
		l.out.rows = append(l.out.rows, append(append(row, l.nodes[ends[0]]...), l.nodes[ends[1]]...))
		load, share = load/2, 0
	}
}

// clos is a network of pods, racks and hosts with one fabric switch for each pod and plane, and spines.
func clos(pods, racks, hosts, planes, spines int) *answer {
	l := newLinkRows()
	for plane := range planes {
		for s := range spines {
			l.node(fmt.Sprintf("plane%d-spine%d", plane, s), "spine", nil, nil)
		}
	}
	for pod := range int64(pods) {
		for plane := range planes {
			fabric := fmt.Sprintf("pod%d-fabric%d", pod, plane)
			l.node(fabric, "fabric", pod, nil)
			for s := range spines {
				l.cable(fabric, fmt.Sprintf("plane%d-spine%d", plane, s), 0.2, 0)
			}
		}
		for r := range int64(racks) {
			tor := fmt.Sprintf("pod%d-tor%d", pod, r)
			l.node(tor, "tor", pod, pod*int64(racks)+r)
			for plane := range planes {
				l.cable(tor, fmt.Sprintf("pod%d-fabric%d", pod, plane), 0.1, 0)
			}
			for h := range hosts {
				host := fmt.Sprintf("pod%d-rack%d-host%d", pod, r, h)
				l.node(host, "host", pod, pod*int64(racks)+r)
				l.cable(host, tor, 0.5, 0.001)
			}
		}
	}
	return l.out
}

// A network of up to 300 hosts is drawn node by node, in layers; larger ones by rack, and then by pod.
func TestDrawNetwork(t *testing.T) {
	for _, c := range []struct {
		name         string
		links        *answer
		nodes, edges int
		layout       string
		labels       string
	}{
		{"256 hosts", clos(2, 16, 8, 2, 8), 256 + 32 + 4 + 16, 256 + 64 + 32, "every node", "hosts ToR fabric spine"},
		{"by rack", clos(4, 16, 16, 2, 8), 64 + 8 + 16, 128 + 64, "each rack", "racks fabric spine"},
		// Spines of a plane join the same fabric switches, and are drawn as one.
		{"by pod", clos(8, 48, 2, 4, 24), 8 + 32 + 4, 32 + 32, "each pod", "pods fabric spine"},
	} {
		d := drawNetwork(c.links)
		if d.nodes.Len() != c.nodes || d.links.Len() != c.edges || !strings.Contains(d.layout, c.layout) {
			t.Errorf("%s: %d nodes, %d edges, drawn as %q; want %d, %d, %q", c.name, d.nodes.Len(), d.links.Len(), d.layout, c.nodes, c.edges, c.layout)
		}
		var labels []string
		for i := range d.labels.rows {
			labels = append(labels, d.labels.Text(i, "label"))
		}
		if got := strings.Join(labels, " "); got != c.labels {
			t.Errorf("%s: labels %q, want %q", c.name, got, c.labels)
		}
		checkPlaces(t, c.name, d)
	}
}

// checkPlaces fails unless nodes have places of their own within the unit square, and edges end at nodes.
func checkPlaces(t *testing.T, name string, d drawing) {
	t.Helper()
	taken := map[[2]float64]string{}
	for i := range d.nodes.rows {
		at := [2]float64{d.nodes.Float(i, "x"), d.nodes.Float(i, "y")}
		if !(at[0] >= 0 && at[0] <= 1 && at[1] >= 0 && at[1] <= 1) {
			t.Errorf("%s: %s is at %v", name, d.nodes.Text(i, "name"), at)
		}
		if other, twice := taken[at]; twice {
			t.Errorf("%s: %s is on top of %s", name, d.nodes.Text(i, "name"), other)
		}
		taken[at] = d.nodes.Text(i, "name")
	}
	for i := range d.links.rows {
		for _, end := range [][2]string{{"x", "y"}, {"x2", "y2"}} {
			if _, ok := taken[[2]float64{d.links.Float(i, end[0]), d.links.Float(i, end[1])}]; !ok {
				t.Errorf("%s: %s ends where no node is", name, d.links.Text(i, "link"))
			}
		}
	}
}

// A drawing has the load and blame of all its links: the largest load of either direction, all shares.
func TestDrawNetworkKeepsBlame(t *testing.T) {
	for _, links := range []*answer{clos(2, 16, 8, 2, 8), newRing(6).out} {
		d := drawNetwork(links)
		want, got, most := 0.0, 0.0, 0.0
		for i := range links.rows {
			want += links.Float(i, "tail_share")
		}
		for i := range d.links.rows {
			got, most = got+d.links.Float(i, "tail_share"), max(most, d.links.Float(i, "load"))
		}
		if got < want-1e-9 || got > want+1e-9 || most != 0.5 {
			t.Errorf("shares %v, want %v; largest load %v", got, want, most)
		}
	}
}

// newRing is a ring of switches with a host each, which has no layers.
func newRing(n int) *linkRows {
	l := newLinkRows()
	for i := range n {
		l.node(fmt.Sprint("switch", i), "switch", nil, nil)
		l.node(fmt.Sprint("host", i), "host", nil, nil)
		l.cable(fmt.Sprint("host", i), fmt.Sprint("switch", i), 0.5, 0.01)
	}
	for i := range n {
		l.cable(fmt.Sprint("switch", i), fmt.Sprint("switch", (i+1)%n), 0.3, 0.02)
	}
	return l
}

// The same links in another order give the same drawing, and other networks than Clos are drawn by force.
func TestDrawNetworkIsDeterministic(t *testing.T) {
	for _, links := range []*answer{clos(2, 4, 4, 2, 2), newRing(9).out} {
		first := drawNetwork(links)
		r := rand.New(rand.NewPCG(1, 2))
		for range 3 {
			shuffled := &answer{columns: links.columns, rows: append([][]any{}, links.rows...)}
			r.Shuffle(len(shuffled.rows), func(i, j int) { shuffled.rows[i], shuffled.rows[j] = shuffled.rows[j], shuffled.rows[i] })
			again := drawNetwork(shuffled)
			// Sums of shares may differ in the last bit, places not.
			if !reflect.DeepEqual(again.nodes, first.nodes) || !reflect.DeepEqual(again.labels, first.labels) {
				t.Errorf("a drawing of %d links depends on their order", len(links.rows))
			}
		}
	}
	d := drawNetwork(newRing(9).out)
	if !strings.Contains(d.layout, "near to what it is joined to") {
		t.Errorf("a ring is drawn as %q", d.layout)
	}
	checkPlaces(t, "ring", d)
	if empty := drawNetwork(&answer{}); empty.links.Len()+empty.nodes.Len()+empty.labels.Len() > 0 {
		t.Errorf("a drawing of nothing has %+v", empty)
	}
}
