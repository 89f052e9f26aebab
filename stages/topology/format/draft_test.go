package format

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// wantFault checks that a file has no network, and a fault with a text.
func wantFault(t *testing.T, l *Loaded, text string) {
	t.Helper()
	found := slices.ContainsFunc(l.Faults, func(f Fault) bool { return strings.Contains(f.Error(), text) })
	if !found || l.Network != nil {
		t.Errorf("no fault has %q: %v", text, l.Faults)
	}
}

// A network that a scenario generates is checked with the places of its nodes and cables. Without the places,
// a user would search a whole file.
func TestGeneratedNetworksAreChecked(t *testing.T) {
	const graph = "graph: {hosts: [a, b], switches: [s, s2], bandwidth: 1Gbps, cables: [a:s, b:s, s:s2%s]}"
	for more, want := range map[string]string{
		"":             "",
		", a:a":        "graph.cables[3]",
		", s:s2":       "graph.cables[3]",
		", b:s2, b:s2": "graph.cables[4]",
	} {
		top, err := tree.YAML("net.yaml", fmt.Appendf(nil, graph, more))
		if err != nil {
			t.Fatal(err)
		}
		var all []*Generated
		err = top.Object(GeneratedKeys(&all, true))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || len(all) != 1 {
			t.Errorf("cables %s: error %v, want %q; %d networks", more, err, want, len(all))
		}
		var unchecked []*Generated
		if err := top.Object(GeneratedKeys(&unchecked, false)); err != nil || len(unchecked) != 1 {
			t.Errorf("cables %s, not checked: %v", more, err)
		}
	}
	const noHost = "graph: {switches: [s, s2], bandwidth: 1Gbps, cables: [s:s2]}"
	top, err := tree.YAML("net.yaml", []byte(noHost))
	if err != nil {
		t.Fatal(err)
	}
	var all []*Generated
	err = top.Object(GeneratedKeys(&all, true))
	if err == nil || !strings.Contains(err.Error(), "graph: the topology has no host") {
		t.Errorf("a graph without hosts: %v", err)
	}
}

// Repairs have the names of their faults. An unknown name lists all of them.
func TestNamesOfRepairs(t *testing.T) {
	for _, r := range Repairs {
		kind, err := ParseRepair(string(r.Kind))
		if err != nil || kind != r.Kind {
			t.Errorf("%s is read as %s, %v", r.Kind, kind, err)
		}
	}
	_, err := ParseRepair("island-loop")
	if err == nil || !strings.Contains(err.Error(), `"island-loop": must be of `) ||
		!strings.Contains(err.Error(), "self-loop, island, similar-names") {
		t.Errorf("an unknown repair: %v", err)
	}
}

// An error of a file has at most 50 faults, and the number of the others.
func TestErrorOfManyFaults(t *testing.T) {
	for n, want := range map[int]string{1: "line 1: f", 50: "line 50: f", 51: "and 1 more faults;",
		53: "and 3 more faults;"} {
		var faults []Fault
		for i := range n {
			faults = append(faults, Fault{File: "x.csv", Line: i + 1, Text: "f"})
		}
		lines := strings.Split(joinFaults(faults).Error(), "\n")
		if len(lines) != min(n, 51) || !strings.Contains(lines[len(lines)-1], want) {
			t.Errorf("%d faults have %d lines, the last of which is %q", n, len(lines), lines[len(lines)-1])
		}
	}
	for want, f := range map[string]Fault{
		"topology a.csv: f":             {File: "a.csv", Text: "f"},
		"topology a.csv: line 1: f":     {File: "a.csv", Line: 1, Text: "f"},
		"topology a.parquet: row 2: f":  {File: "a.parquet", Line: 2, Text: "f"},
		"topology a.parquet: f":         {File: "a.parquet", Text: "f"},
		"topology a.parquet.c: line 1:": {File: "a.parquet.c", Line: 1},
	} {
		if strings.TrimSpace(f.Error()) != want {
			t.Errorf("%q, want %q", f.Error(), want)
		}
	}
}

// Nodes of a graph are excluded with their cables, and the note counts both.
func TestExcludedNodesOfAGraph(t *testing.T) {
	l := loadFixture(t, "graph.yaml", Options{Exclude: []string{"web2", "none*"}})
	wantFault(t, l, `no device matches "none*" of --exclude`)
	text := string(fixture(t, "graph.yaml")) + "    - web2:leaf1\n    - web3:leaf1\n"
	text = strings.Replace(text, "[web1, web2]", "[web1, web2, web3]", 1)
	l = loadText(t, "graph.yaml", text, Options{Exclude: []string{"web2"}})
	wantFaults(t, l)
	wantCounts(t, l, "yaml", 2, 1, 2)
	wantNotes(t, l, "excluded: 1 device matching web2, with 2 cables")
}

// Repeated cables become members of a LAG, and cables from a node to itself are left out, if these repairs
// are asked for.
func TestRepairsOfCables(t *testing.T) {
	text := string(fixture(t, "graph.yaml")) + "    - web1:leaf1\n    - leaf1:leaf1\n    - leaf1:web1\n"
	parallel := []topology.FaultKind{topology.FaultParallel, topology.FaultSelfLoop}
	l := loadText(t, "graph.yaml", text, Options{Repair: parallel})
	wantFaults(t, l)
	if l.Cables != 4 || bandwidth(t, l, "web1:leaf1") != 75e9 {
		t.Errorf("%d cables, %d bps; want four, and a LAG of three", l.Cables, bandwidth(t, l, "web1:leaf1"))
	}
	wantFault(t, loadText(t, "graph.yaml", text, Options{Repair: parallel[:1]}), "line 10")
	wantFault(t, loadText(t, "graph.yaml", text, Options{Repair: parallel[1:]}), "line 9")
}

// A folder has one table of nodes and one of links. With another number, a table would be read that is not
// meant.
func TestFoldersOfTables(t *testing.T) {
	nodes := "node_id,kind\n0,host\n1,host\n"
	links := "a,b,bandwidth,delay\n0,1,1000000000,1000\n"
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"nodes.csv": nodes, "links.csv": links}, ""},
		{map[string]string{"nodes.csv": nodes}, "holds nodes.csv; want one table nodes and one table links"},
		{map[string]string{"links.csv": links}, "holds links.csv; want"},
		{map[string]string{"nodes.csv": nodes, "nodes.parquet": ""}, "want one table nodes"},
		{map[string]string{"nodes.csv": nodes, "links.csv": links, "links.parquet": ""}, "want one table nodes"},
		{map[string]string{"nodes.csv": nodes, "links.parquet": "PAR1"}, "links.parquet: is "},
		{map[string]string{"nodes.csv": nodes + ",host\n", "links.csv": links}, "line 4: node_id is empty"},
		{map[string]string{"nodes.csv": nodes + "x,host\n", "links.csv": links},
			`line 4: node_id is "x", want a whole number of 32 bits`},
		{map[string]string{"nodes.csv": "id,Kind,kind\n", "links.csv": links}, `two columns are named "kind"`},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Read(dir)
		text := ""
		if err != nil {
			text = strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		}
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%v: error %s, want %q", c.files, text, c.want)
		}
	}
}

// Items that pairs connect have the lowest of them as their number.
func TestJoinedItems(t *testing.T) {
	got := joined(7, [][2]int32{{5, 4}, {1, 2}, {6, 5}, {4, 1}})
	want := []int32{0, 1, 1, 3, 1, 1, 1}
	if !slices.Equal(got, want) {
		t.Errorf("items are joined as %v, want %v", got, want)
	}
}
