package linksim_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// What a step reads decides which steps run before it, and what is kept for it. Pass 2 also reads the
// feedback and the links that it may omit. Link cases of clusters read the representatives.
func TestTablesOfSteps(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	for _, c := range []struct {
		estimator estimators.Name
		options   step.Options
		want      []string
	}{
		{estimators.Flow, step.Options{}, []string{
			"simulate: link_loads hops → hop_observations link_stats",
			"simulate: link_loads hops feedback link_stats → hop_observations link_stats",
			"replay: link_loads hops sender_feedback → sender_fcts"}},
		{estimators.Independent, step.Options{}, []string{
			"simulate: link_loads hops → delay_buckets hop_contributions link_stats"}},
		{estimators.Independent, step.Options{ClusterError: 0.1}, []string{
			"cluster: link_loads hops → link_clusters",
			"simulate: link_loads hops link_clusters → delay_buckets link_stats"}},
	} {
		e := c.estimator.Estimator()
		var got []string
		for _, s := range e.Plan(m, c.options, &step.Step{Writes: []schema.Table{schema.Flows}}) {
			if s.Name != "simulate" && s.Name != "replay" && s.Name != "cluster" {
				continue
			}
			text := s.Name + ":"
			for _, o := range s.Reads {
				text += " " + o.Table.Name
			}
			text += " →"
			for _, w := range s.Writes {
				text += " " + w.Name
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", c.estimator, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// With clusters, only representatives are simulated: the counters of other links are 0, and each link with
// flows belongs to one representative. The costs of tasks, the representatives and the rows agree.
func TestOnlyRepresentativesAreSimulated(t *testing.T) {
	n := topologytest.MustClos(t, methodtest.SmallClos())
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(3, 3)), 600)
	e := method.Estimate{Estimator: estimators.Independent, Options: step.Options{ClusterError: 0.5},
		Partitions: 3}
	found, err := method.Run(t.Context(), m, e, flows)
	if err != nil {
		t.Fatal(err)
	}
	of, err := linksim.Representatives(m, found, found.Writer(schema.LinkClusters))
	if err != nil {
		t.Fatal(err)
	}
	represented := 0
	var packets int64
	err = columns.Each(found.Table(schema.LinkStats).Read(), func(l *tables.LinkStat) error {
		simulated := of[l.LinkID] == l.LinkID
		if (l.PacketsSent > 0) != simulated || (of[l.LinkID] >= 0) != (l.Flows > 0) || simulated &&
			l.PacketsSent != l.Packets {
			t.Errorf("link %d is represented by %d, and has %+v", l.LinkID, of[l.LinkID], l)
		}
		if l.Flows > 0 && !simulated {
			represented++
		}
		if simulated && n.FromHost(l.LinkID) {
			packets += l.Packets / 12
		} else if simulated {
			packets += l.Packets
		}
		return nil
	})
	if err != nil || represented == 0 {
		t.Fatalf("%d links are represented, %v", represented, err)
	}
	s := found.Writer(schema.DelayBuckets)
	costs, err := s.Costs(found, []step.Range{{Hi: int64(len(n.Links))}})
	if err != nil || len(costs) != 1 || costs[0] != packets {
		t.Errorf("costs %v, want %d, %v", costs, packets, err)
	}
	wants, err := s.Cut.Wants(found)
	if err != nil {
		t.Fatal(err)
	}
	for id := range n.Links {
		if wants(int32(id)) != (of[id] < 0 || of[id] == int32(id)) {
			t.Errorf("link %d counts for the ranges of links: %v", id, wants(int32(id)))
		}
	}
	if of, err := linksim.Representatives(m, found, nil); of != nil || err != nil {
		t.Errorf("without clusters: %v, %v", of, err)
	}
}
