package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The routes of leaf1 and spine1 of twoLeaves, as FRR writes them: a connected network, an ECMP group with
// weights, a recursive route, a route that is not selected, and a discard route. The weights are as in
// tests/topotests/bgp_link_bw_ip of FRR, and the other keys as in its zebra_vty.c and nexthop.c.
const (
	leaf1Routes = `{
 "10.0.1.0/24":[{"prefix":"10.0.1.0/24","protocol":"connected","selected":true,"installed":true,"nexthops":[
  {"flags":3,"fib":true,"directlyConnected":true,"interfaceIndex":7,"interfaceName":"Vlan100","active":true}]}],
 "10.0.2.0/24":[
  {"prefix":"10.0.2.0/24","protocol":"static","distance":250,"nexthops":[{"ip":"192.0.2.9","interfaceName":"eth0","weight":1}]},
  {"prefix":"10.0.2.0/24","protocol":"bgp","selected":true,"destSelected":true,"distance":20,"installed":true,"nexthops":[
  {"flags":3,"fib":true,"ip":"10.1.1.1","afi":"ipv4","interfaceName":"Ethernet48","active":true,"weight":127},
  {"flags":3,"fib":true,"ip":"10.1.2.1","afi":"ipv4","interfaceName":"PortChannel2","active":true,"weight":254}]}],
 "10.0.2.4/32":[{"prefix":"10.0.2.4/32","protocol":"bgp","selected":true,"installed":true,"nexthops":[
  {"flags":5,"ip":"10.9.9.9","afi":"ipv4","active":true,"recursive":true,"weight":1},
  {"flags":3,"fib":true,"ip":"10.1.1.1","interfaceName":"Ethernet48","resolver":true,"active":true,"weight":1}]}],
 "203.0.113.0/24":[{"selected":true,"nexthops":[{"fib":true,"unreachable":true,"blackhole":true,"active":true}]}]}`
	spineRoutes = `{ "::/0":[],
 "10.0.0.0/16":[{"selected":true,"nexthops":[{"fib":true,"unreachable":true,"reject":true,"active":true}]}],
 "10.0.1.0/24":[{"selected":true,"nexthops":[{"fib":true,"ip":"10.1.0.1","interfaceName":"a","active":true,"weight":1}]}],
 "10.0.2.0/24":[{"selected":true,"nexthops":[{"ip":"10.1.0.2","active":true,"weight":1}]}]}`
	addresses = "address,node\n10.0.1.1/32,h1\n10.0.1.2,h2\n10.0.2.3,h3\n10.0.2.4,h4\n10.1.0.1,leaf1\n10.1.0.2,leaf2\n10.1.1.1,spine1\n10.1.2.1,spine2\n"
)

// twoLeaves has hosts h1 and h2 at leaf1, h3 and h4 at leaf2, and two spines.
func twoLeaves(t testing.TB) *Network {
	t.Helper()
	var nodes []Node
	for i, name := range []string{"h1", "h2", "h3", "h4", "leaf1", "leaf2", "spine1", "spine2"} {
		kind := KindSwitch
		if i < 4 {
			kind = KindHost
		}
		nodes = append(nodes, Node{int32(i), name, kind, -1, -1})
	}
	var cables []Cable
	for _, c := range [][2]int32{{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 6}, {4, 7}, {5, 6}, {5, 7}} {
		cables = append(cables, Cable{A: c[0], B: c[1], BandwidthBps: 10e9, DelayNS: 1000})
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	n.SetPorts(4, Ports{"Ethernet48", "Ethernet0"})
	return n
}

// routeFiles writes the files of twoLeaves, with changes.
func routeFiles(t testing.TB, changes map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{"hosts.csv": addresses, "leaf1.json": leaf1Routes,
		"leaf2.json": strings.NewReplacer("10.0.1.0", "10.0.2.0", "10.0.2.0", "10.0.1.0", "10.0.2.4/32",
			"10.8.0.0/16").
			Replace(leaf1Routes),
		"spine1.json": spineRoutes, "spine2.json": spineRoutes}
	maps.Copy(files, changes)
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func fibRouter(t testing.TB, n *Network, f *FIB) *Router {
	t.Helper()
	r := MustRouter(t, n, 1)
	if err := r.SetRoutes(f); err != nil {
		t.Fatal(err)
	}
	return r
}

// Flows take the route with the longest prefix, and next hops in proportion to their weights. Routes are
// unchanged after a round trip through JSON. Links that are down are omitted. If no link remains, the error
// names the file of the switch where packets end.
func TestFIB(t *testing.T) {
	n := twoLeaves(t)
	dir := routeFiles(t, nil)
	read, err := ReadFIB(n, dir)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	var again FIB
	if err := json.Unmarshal(kept, &again); err != nil {
		t.Fatal(err)
	}
	r := fibRouter(t, n, read)
	r2 := fibRouter(t, n, &again)
	const flows = 20_000
	over := 0
	for id := range int64(flows) {
		to3, err := r.Path(id, 0, 2, nil)
		checkPath(t, n, to3, 0, 2)
		same, err2 := r2.Path(id, 0, 2, nil)
		if err != nil || err2 != nil || !slices.Equal(to3, same) {
			t.Fatalf("%v, %v; from JSON %v, %v", to3, err, same, err2)
		}
		if n.Links[to3[1]].Dst == 7 {
			over++
		}
		to4, err := r.Path(id, 1, 3, nil)
		if err != nil || n.Links[to4[1]].Dst != 6 {
			t.Fatalf("the longer prefix leads over spine1: %v, %v", to4, err)
		}
	}
	const share = 2.0 / 3
	d := math.Abs(float64(over) - share*flows)
	if d > 4*math.Sqrt(share*(1-share)*flows) {
		t.Errorf("%d of %d flows over spine2, whose weight is twice the other's", over, flows)
	}
	down := n.Clone()
	if err := down.Fail(4, 6); err != nil {
		t.Fatal(err)
	}
	r = fibRouter(t, down, read)
	if path, err := r.Path(1, 0, 2, nil); err != nil || down.Links[path[1]].Dst != 7 {
		t.Errorf("%v, %v", path, err)
	}
	_, err = r.Path(1, 0, 3, nil)
	var un *UnreachableError
	if !errors.As(err, &un) || un.Why != filepath.Join(dir, "leaf1.json")+", route 10.0.2.4/32" {
		t.Errorf("%v", err)
	}
}

// If routes equal the shortest paths, every flow has the same path as without routes, to the bit.
func TestFIBOfShortestPaths(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	plain := MustRouter(t, n, 1)
	hosts := "address,node\n"
	for i, id := range n.hosts {
		hosts += fmt.Sprintf("10.0.%d.%d,%d\n", i/200, i%200, id)
	}
	for i, id := range n.switches() {
		hosts += fmt.Sprintf("10.9.%d.%d,%d\n", i/200, i%200, id)
	}
	files := map[string]string{
		"hosts.csv":   hosts,
		"leaf1.json":  "",
		"leaf2.json":  "",
		"spine1.json": "",
		"spine2.json": "",
	}
	place := map[int32]int{}
	for i, id := range n.switches() {
		place[id] = i
	}
	for _, id := range n.switches() {
		table := map[string]any{}
		for i, host := range n.hosts {
			_, links := plain.Next(n.place(id), n.place(host))
			var hops []map[string]any
			for _, l := range links {
				hop := map[string]any{"fib": true, "directlyConnected": true, "interfaceName": "Vlan1"}
				if to, isSwitch := place[n.Links[l].Dst]; isSwitch {
					hop = map[string]any{
						"fib":    true,
						"ip":     fmt.Sprintf("10.9.%d.%d", to/200, to%200),
						"weight": 7,
					}
				}
				hops = append(hops, hop)
			}
			table[fmt.Sprintf("10.0.%d.%d/32", i/200, i%200)] = []any{
				map[string]any{"selected": true, "nexthops": hops},
			}
		}
		text, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		files[n.Name(id)+".json"] = string(text)
	}
	f, err := ReadFIB(n, routeFiles(t, files))
	if err != nil {
		t.Fatal(err)
	}
	r := fibRouter(t, n, f)
	for id := range int64(20_000) {
		src := n.hosts[id%256]
		dst := n.hosts[(id*7+id/256+1)%256]
		if src == dst {
			continue
		}
		want, err := plain.Path(id, src, dst, nil)
		got, err2 := r.Path(id, src, dst, nil)
		if err != nil || err2 != nil || !slices.Equal(got, want) {
			t.Fatalf("flow %d: %v, %v; want %v, %v", id, got, err2, want, err)
		}
	}
}

func TestFIBErrors(t *testing.T) {
	n := twoLeaves(t)
	route := func(prefix, hops string) string {
		return fmt.Sprintf(`{%q:[{"selected":true,"nexthops":[%s]}]}`, prefix, hops)
	}
	for _, c := range []struct{ file, text, want string }{
		{"spine1.json", route("10.0.2.0/24", `{"fib":true,"ip":"10.1.0.1"}`), "leaf1.json, route 10.0.2.0/24: " +
			"packets to h3 take a loop: leaf1, spine1, leaf1"},
		{"spine2.json", strings.Replace(spineRoutes, `"ip":"10.1.0.2"`, `"ip":"10.1.0.1"`, 1),
			"leaf1.json, route 10.0.2.0/24: packets to h3 take a loop: leaf1, spine2, leaf1"},
		{"leaf1.json", route("10.0.2.0/24", `{"fib":true,"ip":"10.7.7.7","interfaceName":"Ethernet9"}`),
			`leaf1.json, route 10.0.2.0/24: next hop "10.7.7.7" at "Ethernet9": leaf1 has no cable`},
		{"leaf1.json", route("10.0.2.0/24", `{"fib":true,"ip":"10.1.1.1","weight":0}`),
			"leaf1.json, route 10.0.2.0/24: next hop \"10.1.1.1\" at \"\" has a weight of 0"},
		{"leaf1.json", `{"x":[]}`, `leaf1.json: route "x": want a prefix such as 10.0.0.0/24`},
		{"leaf1.json", strings.Replace(leaf1Routes, "10.0.2.4/32", "10.0.2.0/24", 1),
			"10.0.2.0/24: a second selected route"},
		{"leaf1.json", strings.Replace(leaf1Routes, "10.0.2.4/32", "10.0.2.9/24", 1), "10.0.2.9/24: a second " +
			"selected route to 10.0.2.0/24"},
		{"hosts.csv", "address,node,node\n10.0.0.1,h1,h2\n", "hosts.csv, line 1: 2 columns are named node"},
		{"leaf1.json", `{"default":{}}`, "line 1: a value is of JSON type object, want a list"},
		{"leaf1.json", "[", "leaf1.json"},
		{"leaf9.json", "{}", `leaf9.json: routes of no switch: no node has the name or id "leaf9"`},
		{"h1.json", "{}", "h1.json: routes of no switch: it is a host"},
		{"hosts.csv", "", "hosts.csv"}, {"hosts.csv", "ip,node\n", "line 1: 0 columns are named address"},
		{"hosts.csv", "address,node\n10.0.0.1,h1\n10.0.0.1,h2\n",
			"hosts.csv, line 3: 10.0.0.1 is the address of h1 too"},
		{"hosts.csv", "address,node\nten,h1\n", "hosts.csv, line 2"},
		{"hosts.csv", "address,node\n10.0.0.1,h9\n", `line 2: no node has the name or id "h9"`},
	} {
		if _, err := ReadFIB(n, routeFiles(t, map[string]string{c.file: c.text})); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.file, c.text, err, c.want)
		}
	}
	for _, c := range []struct{ file, text, want string }{ // found when a flow needs the route
		{"leaf1.json", `{}`, "leaf1.json, no route to h3 (address 10.0.2.3)"},
		{"spine1.json", "", "spine1.json, no route to h3"},
		{"hosts.csv", strings.Replace(addresses, "10.0.2.3,h3\n", "", 1), "no route to h3 (address invalid IP)"},
		{"leaf1.json", route("10.0.0.0/8", `{"fib":true,"blackhole":true,"unreachable":true}`),
			"leaf1.json, route 10.0.0.0/8"},
	} {
		f, err := ReadFIB(n, routeFiles(t, map[string]string{c.file: c.text}))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		r := fibRouter(t, n, f)
		var un *UnreachableError
		for id := range int64(30) {
			if _, err := r.Path(id, 0, 2, nil); errors.As(err, &un) && strings.Contains(un.Why, c.want) {
				break
			}
		}
		if un == nil || !strings.Contains(un.Why, c.want) {
			t.Errorf("%s %s: %+v, want %s", c.file, c.text, un, c.want)
		}
	}
	if _, err := ReadFIB(n, t.TempDir()); err == nil {
		t.Error("an empty directory has routes")
	}
	for _, text := range []string{`{}`, `{"sets":[[0,1]],"rows":[[0,0,0,0]],"row_of":[0,0,0,0]}`,
		`{"sets":[[8,1],[9,1]],"rows":[[0,-1,1,-1]],"row_of":[0,0,0,0]}`,
		`{"rows":[[-2,-1,-1,4]],"row_of":[0,0,0,0]}`} {
		var f FIB // as a lake could contain
		if err := json.Unmarshal([]byte(text), &f); err != nil || MustRouter(t, n, 1).SetRoutes(&f) == nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// No file causes a panic or an endless path.
func FuzzFIB(f *testing.F) {
	f.Add(leaf1Routes, addresses)
	f.Add(spineRoutes, "address,node\n::1,0\n")
	n := twoLeaves(f)
	f.Fuzz(func(t *testing.T, routes, hosts string) {
		if hosts == "" || routes == "" {
			return
		}
		fib, err := ReadFIB(n, routeFiles(t, map[string]string{"spine1.json": routes, "hosts.csv": hosts}))
		if err != nil {
			return
		}
		r := fibRouter(t, n, fib)
		var un *UnreachableError
		for id := range int64(8) {
			src := int32(id % 4)
			dst := int32((id + 1 + id/4) % 4)
			if _, err := r.Path(id, src, dst, nil); err != nil && src != dst && !errors.As(err, &un) {
				t.Fatal(err)
			}
		}
	})
}

// A default route contains every address, and a folder may have the routes of one switch only.
func TestDefaultRoute(t *testing.T) {
	n := twoLeaves(t)
	leaf1 := `{"10.0.1.0/24":[{"selected":true,"nexthops":[{"fib":true,"directlyConnected":true,
  "interfaceName":"Vlan100","active":true}]}],
 "0.0.0.0/0":[{"selected":true,"nexthops":[{"fib":true,"ip":"10.1.1.1","active":true}]}]}`
	r := fibRouter(t, n, mustReadFIB(t, n, routeFiles(t, map[string]string{"leaf1.json": leaf1})))
	path, err := r.Path(1, 0, 2, nil)
	if err != nil || len(path) != 4 || n.Links[path[1]].Dst != 6 {
		t.Errorf("the path over a default route to spine1 is %v, %v", path, err)
	}
	one := routeFiles(t, map[string]string{"leaf1.json": leaf1, "leaf2.json": "", "spine1.json": "",
		"spine2.json": ""})
	r = fibRouter(t, n, mustReadFIB(t, n, one))
	path, err = r.Path(1, 0, 1, nil)
	if err != nil || len(path) != 2 {
		t.Errorf("the path within the rack of the only switch is %v, %v", path, err)
	}
}

func mustReadFIB(t *testing.T, n *Network, dir string) *FIB {
	t.Helper()
	f, err := ReadFIB(n, dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
