package network

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/faults"
)

// clos is a network of pods of racks of 16 hosts: 10 Gbps to hosts, 40 Gbps between switches, 1 us
// everywhere.
type clos struct {
	links []Link
	hosts []bool
	pods  int
	racks int // of a pod
}

const (
	closHosts   = 16
	closFabrics = 4 // of a pod: one for each plane
	closSpines  = 8 // of a plane
)

func newClos(pods, racks int) *clos {
	c := &clos{pods: pods, racks: racks}
	hosts := pods * racks * closHosts
	tor := func(pod, rack int) int32 { return int32(hosts + pod*racks + rack) }
	fabric := func(pod, plane int) int32 { return int32(hosts + pods*racks + pod*closFabrics + plane) }
	c.hosts = make([]bool, hosts+pods*racks+(pods+closSpines)*closFabrics)
	cable := func(a, b int32, bps int64) {
		c.links = append(c.links, Link{a, b, bps, 1000}, Link{b, a, bps, 1000})
	}
	for h := range hosts {
		c.hosts[h] = true
		cable(int32(h), int32(hosts+h/closHosts), 10e9)
	}
	for p := range pods {
		for r := range racks {
			for f := range closFabrics {
				cable(tor(p, r), fabric(p, f), 40e9)
			}
		}
	}
	for p := range pods {
		for f := range closFabrics {
			for s := range closSpines {
				cable(fabric(p, f), fabric(pods, 0)+int32(f*closSpines+s), 40e9)
			}
		}
	}
	return c
}

// path appends the links from one host to another over a plane and one of its spines.
func (c *clos) path(path []int32, from, to, plane, spine int) []int32 {
	hosts := c.pods * c.racks * closHosts
	rackOf := from / closHosts
	podOf := from / closHosts / c.racks
	rackTo := to / closHosts
	podTo := to / closHosts / c.racks
	up := func(rack int) int32 { return int32(2 * (hosts + rack*closFabrics + plane)) }
	top := func(pod int) int32 {
		return int32(2 * (hosts + c.pods*c.racks*closFabrics + (pod*closFabrics+plane)*closSpines + spine))
	}
	path = append(path, int32(2*from))
	if rackOf != rackTo {
		path = append(path, up(rackOf))
		if podOf != podTo {
			path = append(path, top(podOf), top(podTo)^1)
		}
		path = append(path, up(rackTo)^1)
	}
	return append(path, int32(2*to+1))
}

// flows returns flows that start within a period, and their packet-hops. Sizes are log-uniform from 200 bytes
// to 2 MB. The load is a share of the hosts' links.
func (c *clos) flows(p *simkernel.Params, share, ns float64) (f *Flows, packetHops int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	hosts := c.pods * c.racks * closHosts
	f = &Flows{}
	gap := (2e6 - 200) / math.Log(1e4) * 8 / 10 / share / float64(hosts) // ns between starts
	for at := rng.ExpFloat64() * gap; at < ns; at += rng.ExpFloat64() * gap {
		from := rng.IntN(hosts)
		to := (from + 1 + rng.IntN(hosts-1)) % hosts
		size := int64(200 * math.Exp(rng.Float64()*math.Log(1e4)))
		begin := len(f.PathLinks)
		f.PathLinks = c.path(f.PathLinks, from, to, rng.IntN(closFabrics), rng.IntN(closSpines))
		f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
		f.SizeBytes = append(f.SizeBytes, size)
		f.StartNS = append(f.StartNS, int64(at))
		packetHops += p.Packets(size) * int64(len(f.PathLinks)-begin)
	}
	return f, packetHops
}

// BenchmarkNetwork reports processor time and time per packet-hop.
func BenchmarkNetwork(b *testing.B) {
	for _, c := range []*clos{newClos(2, 8), newClos(8, 16), newClos(8, 48)} {
		params := simkernel.DefaultParams()
		hosts := c.pods * c.racks * closHosts
		flows, packetHops := c.flows(&params, 0.2, 8e9/float64(hosts))
		for _, limits := range []BufferParams{{}, {SwitchBytes: 12e6, Alpha: 1}} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("hosts=%d/buffer=%d/workers=%d", hosts, limits.SwitchBytes, workers),
					func(b *testing.B) {
						var before, after syscall.Rusage
						must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
						for range b.N {
							n, err := New(params, limits, c.links, c.hosts, once(flows))
							must(b, err)
							must(b, n.Run(context.Background(), workers, nil))
						}
						must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
						cpu := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
						work := float64(packetHops) * float64(b.N)
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/work, "ns/hop")
						b.ReportMetric(float64(cpu)/work, "cpu-ns/hop")
						b.ReportMetric(float64(packetHops)/1e6, "Mhops")
					})
			}
		}
	}
}

// BenchmarkParts logs the processor time per packet-hop with each part of a switch and with each TCP, and its
// ratio to that without any part. The workload has 256 hosts and one worker. Each time is the minimum of b.N
// alternating runs.
func BenchmarkParts(b *testing.B) {
	c := newClos(2, 8)
	shared := BufferParams{SwitchBytes: 12e6, Alpha: 1}
	selective := shared
	pfc := shared
	selective.Selective = true
	pfc.PFC = true
	pfc.Alpha = DefaultPFCAlpha
	parts := []struct {
		name    string
		kind    simkernel.Transport
		buffer  BufferParams
		classes int
	}{{"none", simkernel.DCTCP, BufferParams{}, 0}, {"buffers", simkernel.DCTCP, shared, 0},
		{"buffers, selective recovery", simkernel.DCTCP, selective, 0}, {"buffers, PFC", simkernel.DCTCP, pfc, 0},
		{"2 classes", simkernel.DCTCP, BufferParams{}, 2}, {"8 classes", simkernel.DCTCP, BufferParams{}, 8},
		{"8 classes, buffers, PFC", simkernel.DCTCP, pfc, 8}, {"newreno", simkernel.NewReno, BufferParams{}, 0},
		{"cubic", simkernel.CUBIC, BufferParams{}, 0}, {"dctcp-window", simkernel.DCTCPWindow, BufferParams{}, 0},
		{"dctcp-window, buffers", simkernel.DCTCPWindow, shared, 0}}
	least := make([]float64, len(parts))
	for range b.N {
		for i, part := range parts {
			params := simkernel.ParamsOf(part.kind)
			flows, packetHops := c.flows(&params, 0.2, 15e6)
			n, err := New(params, part.buffer, c.links, c.hosts, once(flows))
			must(b, err)
			if part.classes > 0 {
				classes := make([]Class, part.classes)
				for q := range classes {
					classes[q].Weight = int64(1 + q)
				}
				for row := range flows.StartNS {
					flows.Class = append(flows.Class, uint8(row%part.classes))
				}
				must(b, n.Classify(classes))
			}
			var before, after syscall.Rusage
			must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
			must(b, n.Run(context.Background(), 1, nil))
			must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
			ns := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
			took := float64(ns) / float64(packetHops)
			if least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	var table strings.Builder
	for i, part := range parts {
		fmt.Fprintf(&table, "\n| %s | %.0f | %.2f |", part.name, least[i], least[i]/least[0])
	}
	fmt.Println(table.String())
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// once is a source of one chunk.
func once(f *Flows) func() (*Flows, error) {
	return func() (*Flows, error) {
		defer func() { f = nil }()
		return f, nil
	}
}

// BenchmarkMoves reports the time per packet-hop of each balance, and of ECMP with a cable that is down at
// the end.
func BenchmarkMoves(b *testing.B) {
	c := newClos(2, 8)
	params := simkernel.DefaultParams()
	flows, packetHops := c.flows(&params, 0.4, 5e6)
	routes := &flatRoutes{treeRoutes: routesOf(c.links, c.hosts, []int64{0}, nil), nodes: len(c.hosts)}
	routes.table = make([]int32, len(c.hosts)*len(c.hosts))
	for at, set := range routes.links[0] {
		routes.table[int(at[0])*routes.nodes+int(at[1])] = set
	}
	last := []faults.Fault{{Link: 0, FromNS: 1e9, ToNS: 2e9, Share: 1}}
	for _, m := range []struct {
		name string
		Forwarding
	}{
		{"none", Forwarding{}},
		{"ecmp", Forwarding{Failures: faults.Failures{Faults: last}}},
		{"flowlet", Forwarding{Balancing: Balancing{Balance: Flowlet, GapNS: 50_000}}},
		{"spray", Forwarding{Balancing: Balancing{Balance: Spray}}},
		{"adaptive", Forwarding{Balancing: Balancing{Balance: Adaptive}}},
		{"plb", Forwarding{Balancing: Balancing{Balance: PLB}}},
		{"conga", Forwarding{Balancing: Balancing{Balance: CONGA, GapNS: 50_000}}},
	} {
		b.Run(m.name, func(b *testing.B) {
			for range b.N {
				n, err := New(params, BufferParams{}, c.links, c.hosts, once(flows))
				must(b, err)
				m.Routes = routes
				if m.name != "none" {
					n.Forward(m.Forwarding)
				}
				must(b, n.Run(context.Background(), 1, nil))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packetHops)/float64(b.N), "ns/hop")
		})
	}
}

// flatRoutes are treeRoutes of one state with a table instead of maps.
type flatRoutes struct {
	*treeRoutes
	table []int32
	nodes int
}

func (r *flatRoutes) Links(_ int, node, host int32) (int32, []int32) {
	set := r.table[int(node)*r.nodes+int(host)]
	return set, r.sets[set]
}
