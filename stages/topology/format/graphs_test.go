package format

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// partOf returns a node or an edge with attributes.
func partOf(attributes map[string]string) *graphPart { return &graphPart{attributes: attributes} }

// The distance of two places is that on the earth, whose quarter is 6371·π/2 km.
func TestDistancesOfPlaces(t *testing.T) {
	at := func(lat, lon string) *graphPart { return partOf(map[string]string{"latitude": lat, "lon": lon}) }
	const quarter = 6371 * math.Pi / 2
	for _, c := range []struct {
		a, b *graphPart
		want float64 // -1: it is not known
	}{
		{at("0", "0"), at("0", "90"), quarter},
		{at("0", "0"), at("0", "180"), 2 * quarter},
		{at("90", "17"), at("-90", "99"), 2 * quarter},
		{at("90", "0"), at("0", "33"), quarter},
		{at("45", "0"), at("45", "180"), quarter},
		{at("60", "0"), at("60", "90"), 2 * 6371 * math.Asin(math.Sqrt(0.125))},
		{at("0", "-30"), at("0", "330"), 0},
		{at("0", "0"), at("0", "360"), 0},
		{at("0", "0"), at("0", "361"), -1},
		{at("0", "NaN"), at("0", "1"), -1},
		{at("0", "0"), at("", "1"), -1},
	} {
		km, ok := distance(c.a, c.b)
		if ok != (c.want >= 0) || ok && math.Abs(km-c.want) > 1e-3 {
			t.Errorf("from %v to %v: %v km, known %v; want %v", c.a.attributes, c.b.attributes, km, ok, c.want)
		}
	}
}

// The delay of an edge is stated, or follows from its length or from the places of its ends, at 5 ns/m.
func TestDelaysOfEdges(t *testing.T) {
	here := partOf(map[string]string{"latitude": "0", "longitude": "0"})
	there := partOf(map[string]string{"lat": "0", "lon": "90"})
	for _, c := range []struct {
		edge   map[string]string
		want   int64
		faults int
	}{
		{map[string]string{"delay": "2us", "length": "20m"}, 2000, 0},
		{map[string]string{"latency": "3us"}, 3000, 0},
		{map[string]string{"delay": "soon", "length": "20m"}, -1, 1},
		{map[string]string{"length": "20m"}, 100, 0},
		{map[string]string{"length": "far"}, 50_037_715, 0},
		{nil, 50_037_715, 0},
	} {
		d := draftOf(func(*draft) {}, nil, "x.gml")
		got := d.edgeDelay(partOf(c.edge), here, there)
		if math.Abs(float64(got-c.want)) > 5 || len(d.Faults) != c.faults {
			t.Errorf("%v: %d ns, %v; want %d ns", c.edge, got, d.Faults, c.want)
		}
	}
	d := draftOf(func(*draft) {}, nil, "x.gml")
	got := d.edgeDelay(partOf(nil), here, partOf(nil))
	if got != -1 {
		t.Errorf("without places: %d ns", got)
	}
}

// The speed of an edge has several names. The first text that is a speed applies.
func TestSpeedsOfEdges(t *testing.T) {
	for _, c := range []struct {
		edge map[string]string
		want int64
	}{
		{map[string]string{"bandwidth": "10G", "label": "40G"}, 10e9},
		{map[string]string{"capacity": "slow", "label": "40G"}, 40e9},
		{map[string]string{"linkspeedraw": "5000000.0", "linkspeed": "7", "linkspeedunits": "G"}, 5e6},
		{map[string]string{"linkspeed": "7", "linkspeedunits": "G"}, 7e9},
		{map[string]string{"label": "a circuit"}, 0},
		{nil, 0},
	} {
		d := draftOf(func(*draft) {}, nil, "x.gml")
		got := d.edgeSpeed(partOf(c.edge))
		if got != c.want {
			t.Errorf("%v: %d bps, want %d", c.edge, got, c.want)
		}
	}
}

// yEd writes labels as separate elements. Of several labels of a node, the first is its name.
func TestLabelsOfYEd(t *testing.T) {
	text := `<graphml><graph>
  <node id="n0"><data><y:NodeLabel>web1</y:NodeLabel><y:NodeLabel>Bern</y:NodeLabel></data></node>
  <node id="n1"><data><y:NodeLabel>leaf1</y:NodeLabel></data></node>
  <node id="n2"><data><y:NodeLabel>web2</y:NodeLabel></data></node>
  <edge source="n0" target="n1"><y:EdgeLabel>10G</y:EdgeLabel></edge>
  <edge source="n2" target="n1"><y:EdgeLabel>25G</y:EdgeLabel></edge>
</graph></graphml>`
	l := loadText(t, "x.graphml", text, Options{})
	wantFaults(t, l)
	if bandwidth(t, l, "web1:leaf1") != 10e9 || bandwidth(t, l, "web2:leaf1") != 25e9 {
		t.Errorf("%d and %d bps, want 10 and 25 Gbps", bandwidth(t, l, "web1:leaf1"), bandwidth(t, l, "web2:leaf1"))
	}
}

// Words of GML have the lines on which they begin, for errors.
func TestWordsOfGML(t *testing.T) {
	words, lines := gmlWords("a\n# no word\nb \"x\ny\"[\n\tc]")
	if !slices.Equal(words, []string{"a", "b", "\"x\ny", "[", "c", "]"}) ||
		!slices.Equal(lines, []int{1, 3, 3, 4, 5, 5}) {
		t.Errorf("words %q on lines %v", words, lines)
	}
	empty := &gml{}
	if empty.line() != 1 {
		t.Errorf("an empty file ends on line %d", empty.line())
	}
}

// Lists of GML are nested up to a depth of 100. A file of brackets would otherwise use all memory.
func TestDepthOfGML(t *testing.T) {
	for depth, want := range map[int]bool{1: true, 101: true, 102: false} {
		d := draftOf(func(*draft) {}, nil, "x.gml")
		g := &gml{draft: d}
		g.words, g.lines = gmlWords(strings.Repeat("a [ ", depth) + strings.Repeat("] ", depth))
		if g.list(0, "", nil) != want {
			t.Errorf("lists to a depth of %d are read: %v", depth, !want)
		}
	}
}
