package format

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

func TestWriteTablesReadsBack(t *testing.T) {
	for name, n := range map[string]*topology.Network{
		"cabling": loadFixture(t, "cabling.csv", Options{}).Network,
		"clos":    topologytest.MustClos(t, topologytest.SmallClos(2)),
		"random":  topologytest.MustClos(t, topologytest.SmallClos(1)),
	} {
		l := n.Links[len(n.Links)/2]
		if err := n.Fail(l.Src, l.Dst); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "a", "net")
		if err := topology.WriteTables(dir, n); err != nil {
			t.Fatal(err)
		}
		back, err := Read(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameNetwork(t, name, back, n)
	}
}

func TestWriteDot(t *testing.T) {
	small := loadFixture(t, "cabling.csv", Options{}).Network
	small.Nodes[0].Name = `web"1\` + "\n"
	if err := small.Fail(small.Links[0].Src, small.Links[0].Dst); err != nil {
		t.Fatal(err)
	}
	large := topologytest.MustClos(t, topologytest.SmallClos(2))
	for name, c := range map[string]struct {
		n    *topology.Network
		want []string
	}{
		"small": {small, []string{`n0 [label="web\"1\\\n", shape=ellipse];`, `n0 -- n12 [label="25 Gbps", style=dashed, color=red];`, "{ rank=same; n16; n17; }"}},
		"large": {large, []string{`rack0 [label="8 hosts\npod0-rack0-host0 …", shape=folder];`, "rack31 -- n287 "}},
	} {
		var b bytes.Buffer
		if err := topology.WriteDot(&b, c.n); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b.String())
			}
		}
		dot, err := exec.LookPath("dot")
		if err != nil {
			continue // Graphviz is not installed: the text alone is checked
		}
		cmd := exec.Command(dot, "-Tsvg")
		cmd.Stdin = &b
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: dot: %v\n%s", name, err, out)
		}
	}
}

// largeCabling is a list of 1,000 switches and the given number of hosts.
func largeCabling(hosts int) []byte {
	var b bytes.Buffer
	b.WriteString("device_a,port_a,device_b,port_b,speed,length\n")
	const pods, tors, fabrics, spines = 32, 27, 4, 8
	for h := range hosts {
		fmt.Fprintf(&b, "srv%05d,eth0,p%02d-tor%02d,Ethernet%d,25G,3m\n", h, h%pods, h/pods%tors, h/pods/tors)
	}
	for p := range pods {
		for f := range fabrics {
			for t := range tors {
				fmt.Fprintf(&b, "p%02d-tor%02d,Ethernet%d,p%02d-fab%d,Ethernet%d,100G,30m\n", p, t, 200+f, p, f, t)
			}
			for s := range spines / fabrics {
				fmt.Fprintf(&b, "p%02d-fab%d,Ethernet%d,spine%d,Ethernet%d,400G,100m\n", p, f, 100+s, f*spines/fabrics+s, p)
			}
		}
	}
	return b.Bytes()
}

// 1,000 switches and 50,000 hosts are read and described in under 10 s; PARSIMON_LONG=1 runs this
// where machines are not shared.
func TestLargeCabling(t *testing.T) {
	hosts := 5_000
	if os.Getenv("PARSIMON_LONG") != "" {
		hosts = 50_000
	}
	start := time.Now()
	l, err := LoadData("large.csv", largeCabling(hosts), Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	d, err := topology.Describe(l.Network)
	if err != nil {
		t.Fatal(err)
	}
	if l.Hosts != hosts || l.Switches != 1000 || d.OwnHostsOnly != 864 || d.Pods != 32 || d.Paths[1].Median != 8 {
		t.Errorf("%d hosts, %d switches, %+v", l.Hosts, l.Switches, d)
	}
	took := time.Since(start)
	t.Logf("%d hosts and %d switches in %v", hosts, l.Switches, took)
	if hosts == 50_000 && took > 10*time.Second {
		t.Errorf("took %v, want less than 10 s", took)
	}
}

func BenchmarkLoadCabling(b *testing.B) {
	data := largeCabling(50_000)
	b.ReportAllocs()
	for b.Loop() {
		l, err := LoadData("large.csv", data, Options{})
		if err != nil || l.Network == nil {
			b.Fatal(l.Faults, err)
		}
		if _, err := topology.Describe(l.Network); err != nil {
			b.Fatal(err)
		}
	}
}
