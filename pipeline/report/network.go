package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a drawing shows node by node.
const (
	mostHosts = 300 // more are drawn by rack
	mostRacks = 128 // more are drawn by pod
	mostAlike = 64  // more switches of one kind are drawn together where they join the same nodes
)

// A vertex of the drawing is a node of the network, or several drawn as one.
type vertex struct {
	name, kind string
	hosts      int // hosts that it stands for
	nodes      int // nodes that it stands for
	pod, rack  int64
	order      int64 // the lowest node id
	layer      int   // distance from the nearest host
	x, y       float64
	beside     []int // neighbours, ascending
}

// An edge of the drawing stands for all links between two vertices, in both directions.
type edge struct {
	a, b            int
	links           int
	tier            string
	load, tailShare float64 // the largest load; the sum of the shares
	flows           int64   // of the link with most
	failed          bool    // all of them
}

// A drawing is the data of chart link_load_and_tail.network.
type drawing struct {
	links, nodes, labels *answer
	layout               string
}

// drawNetwork lays the network out. The links are the answer of question link_load_and_tail with every link.
// The same links give the same drawing, in whatever order they come.
func drawNetwork(links *answer) drawing {
	vertices, edges := readNetwork(links)
	how := "every node of the network"
	if count(vertices, isHost) > mostHosts {
		vertices, edges, how = aggregate(vertices, edges)
	}
	neighbours(vertices, edges)
	setLayers(vertices)
	layout := drawing{layout: how}
	if layered(vertices, edges) {
		placeLayers(vertices)
		layout.labels = layerLabels(vertices)
		layout.layout += ", by distance from the hosts"
	} else {
		placeByForce(vertices, edges)
		layout.labels = nodeLabels(vertices)
		layout.layout += ", near to what it is joined to"
	}
	layout.links, layout.nodes = edgeRows(vertices, edges), vertexRows(vertices)
	return layout
}

func isHost(v vertex) bool { return v.kind == "host" }

func count(vertices []vertex, is func(vertex) bool) int {
	n := 0
	for _, v := range vertices {
		if is(v) {
			n++
		}
	}
	return n
}

// readNetwork makes a vertex of each node and an edge of each cable.
func readNetwork(links *answer) ([]vertex, []edge) {
	nodes := map[int64]vertex{}
	for i := range links.rows {
		for _, end := range []string{"src", "dst"} {
			id := links.Int(i, end+"_node")
			v := vertex{name: links.Text(i, end+"_name"), kind: links.Text(i, end+"_kind"), nodes: 1, order: id, pod: -1,
				rack: -1}
			if v.name == "" {
				v.name = "node " + strconv.FormatInt(id, 10)
			}
			if !links.Null(i, end+"_pod") {
				v.pod = links.Int(i, end+"_pod")
			}
			if !links.Null(i, end+"_rack") {
				v.rack = links.Int(i, end+"_rack")
			}
			if isHost(v) {
				v.hosts = 1
			}
			nodes[id] = v
		}
	}
	var vertices []vertex
	for _, v := range nodes {
		vertices = append(vertices, v)
	}
	slices.SortFunc(vertices, func(a, b vertex) int { return cmp.Compare(a.order, b.order) })
	place := map[int64]int{}
	for i, v := range vertices {
		place[v.order] = i
	}
	var edges []edge
	for i := range links.rows {
		edges = append(edges, edge{
			a: place[links.Int(i, "src_node")], b: place[links.Int(i, "dst_node")], links: 1, tier: links.Text(i, "tier"),
			load: links.Float(i, "load"), tailShare: links.Float(i, "tail_share"), flows: links.Int(i, "flows"),
			failed: links.Is(i, "failed"),
		})
	}
	return vertices, join(edges)
}

// join makes one edge of all between the same two vertices, and drops those within one.
func join(edges []edge) []edge {
	byEnds := map[[2]int]edge{}
	for _, e := range edges {
		if e.a == e.b {
			continue
		}
		key := [2]int{min(e.a, e.b), max(e.a, e.b)}
		sum, known := byEnds[key]
		if !known {
			sum = edge{a: key[0], b: key[1], failed: true, tier: e.tier}
		}
		sum.links += e.links
		sum.load, sum.tailShare, sum.flows = max(sum.load, e.load), sum.tailShare+e.tailShare, max(sum.flows, e.flows)
		sum.failed = sum.failed && e.failed
		sum.tier = min(sum.tier, e.tier) // one direction's, always the same one
		byEnds[key] = sum
	}
	out := make([]edge, 0, len(byEnds))
	for _, e := range byEnds {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b edge) int { return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b)) })
	return out
}

// aggregate draws the hosts and switches of a rack, or of a pod, as one vertex, and switches that join the same
// vertices as one where there are many.
func aggregate(vertices []vertex, edges []edge) ([]vertex, []edge, string) {
	racks := map[int64]bool{}
	for _, v := range vertices {
		if isHost(v) && v.rack >= 0 {
			racks[v.rack] = true
		}
	}
	byPod := len(racks) > mostRacks
	keys := make([]string, len(vertices))
	for i, v := range vertices {
		switch {
		case byPod && v.pod >= 0 && (isHost(v) || v.kind == "tor"):
			keys[i] = "pod " + strconv.FormatInt(v.pod, 10)
		case !byPod && v.rack >= 0 && (isHost(v) || v.kind == "tor"):
			keys[i] = "rack " + strconv.FormatInt(v.rack, 10)
		}
	}
	for _, e := range edges { // a host that is in no rack is drawn with its switch
		for _, ends := range [][2]int{{e.a, e.b}, {e.b, e.a}} {
			if host, other := ends[0], ends[1]; isHost(vertices[host]) && keys[host] == "" {
				keys[host] = cmp.Or(keys[other], vertices[other].name)
				keys[other] = keys[host]
			}
		}
	}
	vertices, edges = group(vertices, edges, keys)
	vertices, edges = groupAlike(vertices, edges)
	if byPod {
		return vertices, edges, "a square for the racks of each pod"
	}
	return vertices, edges, "a square for each rack with its hosts"
}

// group draws all vertices of one key as one; those without a key stay as they are.
func group(vertices []vertex, edges []edge, keys []string) ([]vertex, []edge) {
	place, at := map[string]int{}, make([]int, len(vertices))
	var out []vertex
	for i, v := range vertices {
		k, known := place[keys[i]]
		if keys[i] == "" || !known {
			at[i] = len(out)
			if keys[i] != "" {
				place[keys[i]] = at[i]
				v.name = keys[i]
			}
			out = append(out, v)
			continue
		}
		at[i] = k
		out[k].hosts, out[k].nodes, out[k].order = out[k].hosts+v.hosts, out[k].nodes+v.nodes, min(out[k].order, v.order)
		if v.kind != out[k].kind {
			out[k].kind = "rack" // hosts and their switches
		}
	}
	moved := make([]edge, len(edges))
	for i, e := range edges {
		e.a, e.b = at[e.a], at[e.b]
		moved[i] = e
	}
	return out, join(moved)
}

// groupAlike draws switches of one kind as one where they are many and join the same vertices.
func groupAlike(vertices []vertex, edges []edge) ([]vertex, []edge) {
	neighbours(vertices, edges)
	kinds := map[string]int{}
	for _, v := range vertices {
		kinds[v.kind]++
	}
	keys, sizes := make([]string, len(vertices)), map[string]int{}
	for i, v := range vertices {
		if v.hosts == 0 && kinds[v.kind] > mostAlike {
			keys[i] = fmt.Sprint(v.kind, " switches ", v.beside)
			sizes[keys[i]]++
		}
	}
	vertices, edges = group(vertices, edges, keys)
	for i, v := range vertices {
		if n, many := sizes[v.name]; many {
			vertices[i].name = fmt.Sprintf("%d %s switches", n, v.kind)
		}
	}
	return vertices, edges
}

// neighbours fills in what each vertex is joined to.
func neighbours(vertices []vertex, edges []edge) {
	for i := range vertices {
		vertices[i].beside = nil
	}
	for _, e := range edges {
		vertices[e.a].beside = append(vertices[e.a].beside, e.b)
		vertices[e.b].beside = append(vertices[e.b].beside, e.a)
	}
	for i := range vertices {
		slices.Sort(vertices[i].beside)
	}
}

// edgeRows is data set network_links.
func edgeRows(vertices []vertex, edges []edge) *answer {
	out := &answer{columns: []string{"link", "tier", "links", "load", "tail_share", "flows", "failed", "x", "y",
		"x2", "y2"}}
	for _, e := range edges {
		a, b := vertices[e.a], vertices[e.b]
		out.rows = append(out.rows, []any{a.name + " – " + b.name, e.tier, int64(e.links), e.load, e.tailShare,
			e.flows, e.failed, a.x, a.y, b.x, b.y})
	}
	return out
}

// vertexRows is data set network_nodes.
func vertexRows(vertices []vertex) *answer {
	out := &answer{columns: []string{"name", "kind", "hosts", "x", "y", "area"}}
	for _, v := range vertices {
		area := 42.0
		switch {
		case isHost(v) && len(vertices) > 60:
			area = 5
		case v.nodes > 1:
			area = 90
		}
		out.rows = append(out.rows, []any{v.name, v.kind, int64(v.hosts), v.x, v.y, area})
	}
	return out
}

// layerLabels name the layers of a layered drawing, at its left.
func layerLabels(vertices []vertex) *answer {
	out := &answer{columns: []string{"label", "x", "y"}}
	names, ys := map[int][]string{}, map[int]float64{}
	for _, v := range vertices {
		name := map[string]string{"host": "hosts", "tor": "ToR", "rack": "racks"}[v.kind]
		if v.kind == "rack" && strings.HasPrefix(v.name, "pod") {
			name = "pods"
		}
		if name = cmp.Or(name, v.kind); !slices.Contains(names[v.layer], name) {
			names[v.layer] = append(names[v.layer], name)
		}
		ys[v.layer] = v.y
	}
	for layer := range len(names) {
		out.rows = append(out.rows, []any{strings.Join(names[layer], ", "), 0.0, ys[layer]})
	}
	return out
}

// nodeLabels name the switches of a drawing by force, where they are few.
func nodeLabels(vertices []vertex) *answer {
	out := &answer{columns: []string{"label", "x", "y"}}
	if len(vertices) > 40 {
		return out
	}
	for _, v := range vertices {
		out.rows = append(out.rows, []any{v.name, v.x + 0.008, v.y + 0.012})
	}
	return out
}
