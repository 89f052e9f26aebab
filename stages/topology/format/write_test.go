package format

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

func TestWriteTablesReadsBack(t *testing.T) {
	for name, n := range map[string]*topology.Network{
		"cabling": loadFixture(t, "cabling.csv", Options{}).Network,
		"clos":    topologytest.MustClos(t, topologytest.SmallClos(2)),
		"lags":    loadText(t, "cables.csv", operatorList, Options{Exclude: []string{"oob-*"}}).Network,
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
		if back, err = FromTables(&oneBatch{n.NodesRecord()}, &oneBatch{n.LinksRecord()}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameNetwork(t, name, back, n)
		a, b := back.RackNames(), n.RackNames()
		if !slices.Equal(a, b) {
			t.Errorf("%s: racks %v, want %v", name, a, b)
		}
		links := n.LinksRecord()
		_, err = FromTables(&oneBatch{n.NodesRecord()}, &oneBatch{links.NewSlice(1, links.NumRows())})
		if err == nil || !strings.Contains(err.Error(), "link 1 is out of order") {
			t.Errorf("%s: without the first link: %v", name, err)
		}
	}
}

// Earlier versions wrote a LAG as one row for each direction, with the ports of all members. As one cable of
// the sum, it would give a flow the bandwidth of all members.
func TestTablesWithSeveralPortsAreLAGs(t *testing.T) {
	nodes := "node_id,name,kind\n0,h0,host\n1,h1,host\n2,leaf0,tor\n3,leaf1,tor\n"
	links := "link_id,src_node,dst_node,bandwidth_bps,delay_ns,src_port,dst_port\n" +
		"0,0,2,10000000000,1000,,\n1,2,0,10000000000,1000,,\n" +
		"2,1,3,10000000000,1000,,\n3,3,1,10000000000,1000,,\n" +
		"4,2,3,20000000000,1000,\"p1,p2\",\"q1,q2\"\n5,3,2,20000000000,1000,\"q1,q2\",\"p1,p2\"\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"nodes.csv": nodes, "links.csv": links} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	wantNotes(t, l, "lag: 4 links of rows with several ports")
	n := l.Network
	members := n.Members(2, 3)
	if len(members) != 2 {
		t.Fatalf("%d cables between the leaves, want 2", len(members))
	}
	for i, cable := range members {
		port := []string{"p1", "p2"}[i]
		name := n.LinkName(2 * cable)
		bps := n.Links[2*cable].BandwidthBps
		if bps != 10e9 || !strings.HasSuffix(name, "("+port+")") {
			t.Errorf("%s has %d bps, want port %s and 10 Gbps", name, bps, port)
		}
	}
}

// oneBatch is a stream of one batch.
type oneBatch struct{ rec arrow.Record }

func (b *oneBatch) Next(...string) (arrow.Record, error) {
	rec := b.rec
	b.rec = nil
	if rec == nil {
		return nil, io.EOF
	}
	return rec, nil
}

func (*oneBatch) Close() error { return nil }

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
				fmt.Fprintf(
					&b,
					"p%02d-tor%02d,Ethernet%d,p%02d-fab%d,Ethernet%d,100G,30m\n",
					p,
					t,
					200+f,
					p,
					f,
					t,
				)
			}
			for s := range spines / fabrics {
				fmt.Fprintf(
					&b,
					"p%02d-fab%d,Ethernet%d,spine%d,Ethernet%d,400G,100m\n",
					p,
					f,
					100+s,
					f*spines/fabrics+s,
					p,
				)
			}
		}
	}
	return b.Bytes()
}

// 1,000 switches and 50,000 hosts are read and described in less than 10 s. The test runs only with
// PARSIMON_LONG=1, on machines that are not shared.
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
	d := topology.Describe(l.Network)
	if l.Hosts != hosts || l.Switches != 1000 || d.Pods != 32 {
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
		topology.Describe(l.Network)
	}
}
