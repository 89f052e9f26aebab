package topology

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxDotHosts is how many hosts a picture draws one by one; a larger network shows one box per rack.
const maxDotHosts = 100

// WriteDot writes the network as a Graphviz graph, with one row of nodes per distance from the hosts.
// Failed cables are dashed.
func WriteDot(w io.Writer, n *Network) error {
	g := newLevelGraph(n)
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "graph topology {\n  rankdir=BT;")
	fmt.Fprintln(b, `  node [shape=box, style=rounded, fontname="sans-serif"];`)
	fmt.Fprintln(b, `  edge [fontname="sans-serif", fontsize=10];`)
	box := map[int32]string{} // by host: the box of its rack
	if len(n.hosts) > maxDotHosts {
		for i, rack := range n.racks {
			first, _ := n.Node(rack[0])
			name := fmt.Sprintf("rack%d", i)
			label := fmt.Sprintf("%s\n%s …", Count(len(rack), "host"), first.Name)
			fmt.Fprintf(b, "  %s [label=%s, shape=folder];\n", name, quoteDot(label))
			for _, h := range rack {
				box[h] = name
			}
		}
	}
	rows := map[int][]string{}
	for i, v := range n.Nodes {
		if box[v.ID] != "" {
			continue
		}
		style := ""
		if v.Kind == KindHost {
			style = ", shape=ellipse"
		}
		fmt.Fprintf(b, "  n%d [label=%s%s];\n", v.ID, quoteDot(v.Name), style)
		rows[g.level[i]] = append(rows[g.level[i]], "n"+strconv.Itoa(int(v.ID)))
	}
	for level := -1; level <= len(n.Nodes); level++ {
		if nodes := rows[level]; len(nodes) > 1 {
			fmt.Fprintf(b, "  { rank=same; %s; }\n", strings.Join(nodes, "; "))
		}
	}
	type bundle struct{ a, b string }
	drawn := map[bundle]bool{}
	for i := 0; i < len(n.Links); i += 2 {
		l := n.Links[i]
		name := func(id int32) string {
			if box[id] != "" {
				return box[id]
			}
			return "n" + strconv.Itoa(int(id))
		}
		e := bundle{name(l.Src), name(l.Dst)}
		bundled := strings.HasPrefix(e.a, "rack") || strings.HasPrefix(e.b, "rack")
		if bundled && (drawn[e] || e.a == e.b) {
			continue
		}
		drawn[e] = true
		style := ""
		if l.Failed && !bundled {
			style = ", style=dashed, color=red"
		}
		fmt.Fprintf(b, "  %s -- %s [label=%s%s];\n", e.a, e.b, quoteDot(FormatBps(l.BandwidthBps)), style)
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// quoteDot quotes a label; Graphviz knows no other escapes than these.
func quoteDot(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(text) + `"`
}
