package format

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// A graphPart is a node or an edge of a graph file, with its attributes by name in lower case.
type graphPart struct {
	id, source, target string // of a node its id, of an edge its ends
	attributes         map[string]string
	at                 place
}

// of returns the first of some attributes that exists and is not empty.
func (p *graphPart) of(names ...string) string {
	for _, name := range names {
		text := strings.TrimSpace(p.attributes[name])
		if text != "" {
			return text
		}
	}
	return ""
}

// assembleGraph turns nodes into devices, and edges into cables. The name of a node is its label, unless
// another node has the same label.
func (d *draft) assembleGraph(nodes, edges []graphPart) {
	labels := map[string]int{}
	for i := range nodes {
		labels[nodes[i].of("label", "name")]++
	}
	s := &listings{}
	byID := map[string]*graphPart{}
	name := map[string]string{} // of a node, by id
	for i := range nodes {
		v := &nodes[i]
		if byID[v.id] != nil {
			d.fault(v.at, topology.FaultDoubled, "two nodes have the id %q", v.id)
			continue
		}
		byID[v.id] = v
		label := v.of("label", "name")
		name[v.id] = cmp.Or(label, v.id)
		if labels[label] > 1 && label != "" {
			name[v.id] = fmt.Sprintf("%s (%s)", label, v.id)
		}
		of := device{name: name[v.id], at: v.at}
		role, known := roleNames[strings.ToLower(v.of("role", "kind", "type", "tier"))]
		if known {
			of.kind = cmp.Or(role, topology.KindSwitch)
			of.stated = role != ""
		}
		s.devices = append(s.devices, of)
	}
	for i := range edges {
		e := &edges[i]
		a := byID[e.source]
		b := byID[e.target]
		if a == nil || b == nil {
			d.fault(
				e.at,
				topology.FaultUnknownNode,
				"an edge joins %q and %q, and there is no such node",
				e.source,
				e.target,
			)
			continue
		}
		v := listing{a: end{device: name[e.source]}, b: end{device: name[e.target]}, at: e.at}
		v.bps = d.edgeSpeed(e)
		v.delayNS = d.edgeDelay(e, a, b)
		s.all = append(s.all, v)
	}
	d.assemble(s)
}

// edgeSpeed returns the speed of an edge in bps, or 0 if it has none. Topology Zoo has LinkSpeedRaw in bps,
// and LinkSpeed with LinkSpeedUnits. The label of an edge may also be a speed.
func (d *draft) edgeSpeed(e *graphPart) int64 {
	for _, text := range []string{e.of("bandwidth", "speed", "capacity", "rate", "bw"),
		e.of("linkspeedraw") + "bps", e.of("linkspeed") + e.of("linkspeedunits"), e.of("label", "linklabel")} {
		if text == "" || text == "bps" {
			continue
		}
		if bps, err := topology.ParseSpeed(text); err == nil {
			return bps
		}
		d.count(1, "edge", "speeds: a text that is no speed, such as "+strconv.Quote(text)+", of %s")
	}
	return 0
}

// edgeDelay returns the delay of an edge in ns. It is stated, or follows from the length of the edge or from
// the distance between its nodes. It is -1 if none of these is known.
func (d *draft) edgeDelay(e, a, b *graphPart) int64 {
	text := e.of("delay", "latency")
	if text != "" {
		if ns, err := topology.ParseDelay(text); err == nil {
			return ns
		}
		d.fault(e.at, topology.FaultFormat, "the delay is %q, want a time such as 1.2us", text)
		return -1
	}
	length := e.of("length")
	if length != "" {
		if ns, err := topology.LengthDelay(length, ""); err == nil {
			d.count(1, "edge", "delays: %s with a length, at 5 ns/m")
			return ns
		}
	}
	km, ok := distance(a, b)
	if !ok {
		return -1
	}
	ns, err := topology.LengthDelay(strconv.FormatFloat(km, 'f', 3, 64)+"km", "")
	if err != nil {
		return -1
	}
	d.count(1, "edge", "delays: %s by the distance of the places of their nodes, at 5 ns/m")
	return ns
}

// earthRadiusKM is the mean radius of the earth.
const earthRadiusKM = 6371

// distance returns the great-circle distance of two nodes in km, by the haversine formula. It is not ok if a
// node has no latitude or longitude.
func distance(a, b *graphPart) (km float64, ok bool) {
	var angle [4]float64
	for i, text := range []string{a.of("latitude", "lat"), a.of("longitude", "lon"), b.of("latitude", "lat"),
		b.of("longitude", "lon")} {
		degrees, err := strconv.ParseFloat(text, 64)
		if err != nil || !(math.Abs(degrees) <= 360) {
			return 0, false
		}
		angle[i] = degrees * math.Pi / 180
	}
	sin := func(x float64) float64 { return math.Sin(x/2) * math.Sin(x/2) }
	h := sin(angle[2]-angle[0]) + math.Cos(angle[0])*math.Cos(angle[2])*sin(angle[3]-angle[1])
	return 2 * earthRadiusKM * math.Asin(math.Sqrt(min(1, h))), true
}

// readGraphML reads nodes and edges with their data, whose keys have names (attr.name), and the labels that
// yEd writes.
func readGraphML(d *draft) {
	g := &graphML{
		draft: d,
		keys:  map[string]string{},
		x:     xml.NewDecoder(bytes.NewReader(d.content(d.files[0]))),
	}
	for {
		token, err := g.x.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, _ := g.x.InputPos()
			d.syntax(d.files[0], line, "is not XML: %v", err)
			return
		}
		g.token(token)
	}
	d.assembleGraph(g.nodes, g.edges)
}

// A graphML is the state of the reader: the names of attributes by id, and the part that is being read.
type graphML struct {
	*draft
	x            *xml.Decoder
	keys         map[string]string
	nodes, edges []graphPart
	part         *graphPart
	attribute    string // that the text belongs to; empty: none
}

func (g *graphML) token(token xml.Token) {
	switch t := token.(type) {
	case xml.StartElement:
		g.start(t)
	case xml.EndElement:
		switch t.Name.Local {
		case "node", "edge":
			g.part = nil
		case "data", "NodeLabel", "EdgeLabel":
			g.attribute = ""
		}
	case xml.CharData:
		if g.part != nil && g.attribute != "" {
			g.part.attributes[g.attribute] += string(t)
		}
	}
}

func (g *graphML) start(t xml.StartElement) {
	attribute := map[string]string{}
	for _, a := range t.Attr {
		attribute[a.Name.Local] = a.Value
	}
	line, _ := g.x.InputPos()
	part := graphPart{id: attribute["id"], source: attribute["source"], target: attribute["target"],
		attributes: map[string]string{}, at: place{file: g.files[0], line: line}}
	switch t.Name.Local {
	case "key":
		g.keys[attribute["id"]] = strings.ToLower(attribute["attr.name"])
	case "node":
		g.nodes = append(g.nodes, part)
		g.part = &g.nodes[len(g.nodes)-1]
	case "edge":
		g.edges = append(g.edges, part)
		g.part = &g.edges[len(g.edges)-1]
	case "data":
		g.attribute = g.keys[attribute["key"]]
	case "NodeLabel", "EdgeLabel":
		if g.part != nil && g.part.attributes["label"] == "" {
			g.attribute = "label"
		}
	}
}

// gmlStart matches the beginning of GML: keys with values, then the graph.
var gmlStart = regexp.MustCompile(
	`(?is)^(\s*#[^\n]*\n|\s*(creator|version|comment|label|directed)\s+("[^"]*"|\S+)\s*)*\s*graph\s*\[`,
)

// readGML reads a GML graph, such as node [ id 0 label "a" ] and edge [ source 0 target 1 ].
func readGML(d *draft) {
	words, lines := gmlWords(string(d.content(d.files[0])))
	g := &gml{draft: d, words: words, lines: lines}
	if !g.list(0, "", nil) || g.next < len(words) {
		d.syntax(d.files[0], g.line(), "is not GML: brackets do not match, or a key has no value")
		return
	}
	d.assembleGraph(g.nodes, g.edges)
}

// gmlWords splits GML into keys, values and brackets. Texts keep their first quotation mark.
func gmlWords(text string) (words []string, lines []int) {
	line := 1
	for text != "" {
		switch text[0] {
		case '\n':
			line++
			text = text[1:]
		case ' ', '\t', '\r':
			text = text[1:]
		case '#':
			_, text, _ = strings.Cut(text, "\n")
			line++
		case '[', ']':
			words = append(words, text[:1])
			lines = append(lines, line)
			text = text[1:]
		case '"':
			inside, rest, _ := strings.Cut(text[1:], `"`)
			words = append(words, `"`+inside)
			lines = append(lines, line)
			line += strings.Count(inside, "\n")
			text = rest
		default:
			n := strings.IndexAny(text, " \t\r\n[]\"")
			if n < 0 {
				n = len(text)
			}
			words = append(words, text[:n])
			lines = append(lines, line)
			text = text[n:]
		}
	}
	return words, lines
}

// maxGMLDepth is the maximum depth of nested lists.
const maxGMLDepth = 100

type gml struct {
	*draft
	words        []string
	lines        []int
	next         int
	nodes, edges []graphPart
}

func (g *gml) line() int {
	if len(g.lines) == 0 {
		return 1
	}
	return g.lines[min(g.next, len(g.lines)-1)]
}

// list reads keys and values up to a closing bracket, or at depth 0 to the end. Those of a node or an edge
// are added to part. It returns false if the text is not GML.
func (g *gml) list(depth int, of string, part *graphPart) bool {
	for g.next < len(g.words) && g.words[g.next] != "]" {
		key := strings.ToLower(g.words[g.next])
		at := place{file: g.files[0], line: g.line()}
		g.next++
		if g.next == len(g.words) || g.words[g.next] == "]" || key == "[" || depth > maxGMLDepth {
			return false
		}
		value := g.words[g.next]
		g.next++
		if value != "[" {
			g.value(part, key, strings.TrimPrefix(value, `"`))
			continue
		}
		var inner *graphPart
		if of == "graph" && (key == "node" || key == "edge") {
			inner = &graphPart{attributes: map[string]string{}, at: at}
		}
		if !g.list(depth+1, key, inner) || g.next == len(g.words) {
			return false
		}
		g.next++ // the bracket
		if inner != nil && key == "node" {
			g.nodes = append(g.nodes, *inner)
		} else if inner != nil {
			g.edges = append(g.edges, *inner)
		}
	}
	return true
}

func (g *gml) value(part *graphPart, key, text string) {
	if part == nil {
		return
	}
	switch key {
	case "id":
		part.id = text
	case "source":
		part.source = text
	case "target":
		part.target = text
	default:
		part.attributes[key] = text
	}
}
