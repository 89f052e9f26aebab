package exact

import (
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

type classRow struct {
	LinkID   int32  `col:"link_id"`
	Class    string `col:"class"`
	Marks    int64  `col:"marks"`
	Drops    int64  `col:"drops"`
	PausedNS int64  `col:"paused_ns"`
}

type slotRow struct {
	LinkID int32   `col:"link_id"`
	FromNS int64   `col:"from_ns"`
	ToNS   int64   `col:"to_ns"`
	Bytes  int64   `col:"bytes"`
	Load   float64 `col:"load"`
}

var (
	classTable = columns.TableOf[classRow](schema.LinkClasses)
	slotTable  = columns.TableOf[slotRow](schema.LinkSlots)
)

// writeLinks writes table link_stats: what each link carried, and its queue. It covers data packets only. If
// paths change, it counts packets where they were sent.
func (x *simulation) writeLinks() error {
	var rows []tables.LinkStat
	loads := x.options.Loads
	if x.feed.waits != nil { // the offered load depends on what the network delivers
		loads.LastStartNS = x.stats.LastEndNS
	}
	for i := range loads.Links {
		if x.routes == nil {
			break
		}
		m := x.engine.Traffic(int32(i))
		l := &loads.Links[i]
		l.Packets = m.Sent
		l.Bytes = -m.Sent * x.model.Params.HeaderBytes
		for _, bytes := range m.SentBytes {
			l.Bytes += bytes
		}
		if l.Flows == 0 {
			l.FirstStartNS = loads.FirstStartNS
			l.LastStartNS = loads.LastStartNS
		}
	}
	for _, l := range x.model.Network.Links {
		carried := &loads.Links[l.ID]
		waitNS := x.waitNS[l.ID].Float64()
		c := tables.LinkCounters{}
		if carried.Packets > 0 {
			queue := x.engine.Counters(l.ID)
			busyNS := int64(carried.BusyNS(l.BandwidthBps, &x.model.Params))
			if x.routes != nil {
				waitNS, busyNS = x.engine.Traffic(l.ID).WaitNS, x.engine.Traffic(l.ID).BusyNS
			}
			c = tables.LinkCounters{
				PacketsSent: carried.Packets, PacketsMarked: queue.PacketsMarked, BusyNS: busyNS,
				MaxQueueBytes:    queue.MaxQueueBytes,
				MeanQueuePackets: waitNS / float64(max(1, busyNS)), // Little's law, as in linksim.Simulator
				MeanWaitNS:       waitNS / float64(carried.Packets),
			}
			if queue.MaxQueueBytes > 0 {
				c.MaxQueueAtNS = x.feed.originNS + queue.MaxQueueAtNS
			}
		}
		row := loads.Stat(&x.model.Params, l, c)
		row.Drops, row.PausedNS = x.engine.Dropped(l.ID), x.engine.PausedNS(l.ID)
		rows = append(rows, row)
	}
	return tables.LinkStats.Write(x.out.Links, rows)
}

func (x *simulation) writeClasses() error {
	var rows []classRow
	for _, l := range x.model.Network.Links {
		for i, c := range x.model.Classes {
			marked, dropped := x.engine.CountersOf(l.ID, i)
			rows = append(rows, classRow{l.ID, c.Name, marked, dropped, x.engine.PausedOf(l.ID, i)})
		}
	}
	return classTable.Write(x.out.Classes, rows)
}

// writeSlots writes table link_slots. All links use the slots of the link whose slots are longest.
func (x *simulation) writeSlots() error {
	slotNS := int64(0)
	for _, l := range x.model.Network.Links {
		slotNS = max(slotNS, x.engine.Traffic(l.ID).SlotNS)
	}
	var rows []slotRow
	for _, l := range x.model.Network.Links {
		m := x.engine.Traffic(l.ID)
		sums := [network.LoadSlots]int64{}
		for i, bytes := range m.SentBytes {
			sums[int64(i)*m.SlotNS/slotNS] += bytes
		}
		for i, bytes := range sums {
			fromNS := x.feed.originNS + int64(i)*slotNS
			if bytes > 0 {
				rows = append(rows, slotRow{l.ID, fromNS, fromNS + slotNS, bytes,
					float64(bytes) * 8e9 / float64(slotNS) / float64(l.BandwidthBps)})
			}
		}
	}
	return slotTable.Write(x.out.Slots, rows)
}

// findDeepest finds the switch that held the most bytes. Without a limited buffer it finds the switch that
// may have held the most: the length of a queue is recorded when the transmission of a packet starts, so each
// port may have held one more packet.
func (x *simulation) findDeepest(engine *network.Network) {
	held := map[int32]int64{}
	for _, l := range x.model.Network.Links {
		v, _ := x.model.Network.Node(l.Src)
		if v.Kind != topology.KindHost {
			deepest := engine.Counters(l.ID).MaxQueueBytes
			if deepest > 0 {
				held[l.Src] += deepest + x.model.Params.PayloadBytes + x.model.Params.HeaderBytes
			}
		}
	}
	for i, v := range x.model.Network.Nodes { // of equal switches, the one with the lowest index
		if !x.model.Buffers.IsZero() {
			held[v.ID] = engine.MostBytes(int32(i))
		}
		if held[v.ID] > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch = v.ID
			x.stats.DeepestSwitchBytes = held[v.ID]
		}
	}
}
