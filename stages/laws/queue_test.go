package laws

import (
	"math/rand/v2"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// The longest queue of link_stats has one meaning: the bytes in the queue when a transmission starts, its
// packet included. With flows of one packet over a star, a link case has the arrivals of the whole network,
// so both report the same queue at the same time, on every link. If the meaning depended on the estimator,
// the queues of two estimates could not be compared.
func TestLongestQueueOfLinkCasesIsThatOfTheNetwork(t *testing.T) {
	const senders = 8
	nodes := []topology.Node{{ID: 0, Kind: topology.KindSwitch}}
	var cables []topology.Cable
	for id := int32(1); id <= senders+1; id++ {
		nodes = append(nodes, topology.Node{ID: id, Kind: topology.KindHost})
		cables = append(cables, topology.Cable{A: id, B: 0, BandwidthBps: 10e9, DelayNS: 1000})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var rows []workload.Row
	start := int64(0)
	for id := range int64(3000) {
		start += random.Int64N(1500)
		src := 1 + random.Int32N(senders)
		rows = append(rows, workload.Row{ID: id, Src: src, Dst: senders + 1, StartNS: start, Connection: id,
			SizeBytes: min(1000, 1+random.Int64N(1500))})
	}
	m := methodtest.DCTCP(t, n)
	whole := linkStats(t, method.Estimate{Estimator: estimators.Exact}, m, rows)
	cases := linkStats(t, method.Estimate{Estimator: estimators.Independent}, m, rows)
	used := 0
	deepest := int64(0)
	for link, of := range whole {
		other := cases[link]
		if of.MaxQueueBytes != other.MaxQueueBytes || of.MaxQueueAtNS != other.MaxQueueAtNS {
			t.Errorf("%s: %d bytes at %d ns in the network, %d at %d in its link case", n.LinkName(link),
				of.MaxQueueBytes, of.MaxQueueAtNS, other.MaxQueueBytes, other.MaxQueueAtNS)
		}
		if of.MaxQueueBytes > 0 {
			used++
		}
		deepest = max(deepest, of.MaxQueueBytes)
	}
	if used != senders+1 || deepest < 4*1048 {
		t.Errorf("%d links have a queue of up to %d bytes, want %d and 4 packets", used, deepest, senders+1)
	}
}

// linkStats returns table link_stats of an estimate, by link.
func linkStats(
	t *testing.T, e method.Estimate, m *method.Model, rows []workload.Row,
) map[int32]tables.LinkStat {
	t.Helper()
	found, err := method.Run(t.Context(), m, e, rows)
	if err != nil {
		t.Fatal(err)
	}
	stats := map[int32]tables.LinkStat{}
	err = columns.Each(found.Table(schema.LinkStats).Read(), func(l *tables.LinkStat) error {
		stats[l.LinkID] = *l
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
