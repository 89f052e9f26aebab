package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/zeebo/xxh3"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// A scenario made from another shares not only its flows but whatever turns out the same: a task whose whole input has
// the digest that the base's task had takes over the base's files. Stage route digests the hops of each link as it
// writes them.

// hopDigests passes hops on and digests those of each link.
type hopDigests struct {
	to    schema.Sink
	links []uint64 // by link id
	rows  []uint64 // digests of a batch's rows
}

func newHopDigests(to schema.Sink, links int) *hopDigests {
	return &hopDigests{to: to, links: make([]uint64, links)}
}

// oddFactor spreads bits: 2^64 over the golden ratio, made odd.
const oddFactor = 0x9e3779b97f4a7c15

// Write passes a batch on.
func (d *hopDigests) Write(rec arrow.Record) error {
	link := columns.Int32s(rec, "link_id")
	d.rows = slices.Grow(d.rows[:0], len(link))[:len(link)]
	clear(d.rows)
	for _, col := range rec.Columns() {
		switch a := col.(type) {
		case *array.Int16:
			digestColumn(d.rows, a.Int16Values())
		case *array.Int32:
			digestColumn(d.rows, a.Int32Values())
		case *array.Int64:
			digestColumn(d.rows, a.Int64Values())
		default:
			return fmt.Errorf("table hops has a column of type %s, which has no digest", col.DataType())
		}
	}
	for i, id := range link {
		x := (d.links[id] ^ d.rows[i]) * oddFactor
		d.links[id] = x ^ x>>32
	}
	return d.to.Write(rec)
}

// digestColumn adds a column to the digests of its rows.
func digestColumn[T int16 | int32 | int64](rows []uint64, values []T) {
	rows = rows[:len(values)]
	for i, v := range values {
		x := (rows[i] ^ uint64(v)) * oddFactor
		rows[i] = x ^ x>>29
	}
}

// bytes are the digests, 8 bytes a link.
func (d *hopDigests) bytes() []byte {
	raw := make([]byte, 0, 8*len(d.links))
	for _, x := range d.links {
		raw = binary.LittleEndian.AppendUint64(raw, x)
	}
	return raw
}

// digestsName is the state file of stage route with the digests of chunk n.
func digestsName(n int) string { return fmt.Sprintf("digests-%05d.json", n) }

// linkDigests are the digests of every link's hops in all chunks; nil where some are missing.
func (m *method) linkDigests(in *engine.Inputs) []uint64 {
	all := routeDigests(m.Lake, in.Records(m.route))
	if len(all) != len(m.Network.Links) {
		return nil
	}
	return all
}

// routeDigests are the digests of every link's hops that a complete stage route has left; nil where some are missing.
func routeDigests(l *lake.Lake, route engine.Records) (all []uint64) {
	for n := range route.Tasks {
		var raw []byte
		ok, err := l.ReadState(route.Stage.StatePath(digestsName(n)), &raw)
		if n == 0 {
			all = make([]uint64, len(raw)/8)
		}
		if err != nil || !ok || len(raw) != 8*len(all) {
			return nil
		}
		for id := range all {
			all[id] = xxh3.HashSeed(raw[8*id:8*id+8], all[id])
		}
	}
	return all
}

// caseKeys digest all that the link cases of each task depend on, as table link_stats does: the hops of its links, the
// bandwidths around them, the transport, and the span of the workload.
func (m *method) caseKeys(in *engine.Inputs, tasks []engine.Task) ([]string, error) {
	digests := m.linkDigests(in)
	if digests == nil || m.cluster != nil {
		return nil, nil
	}
	loads, err := m.readLoads(in)
	if err != nil {
		return nil, err
	}
	params, err := json.Marshal(m.Spec.Params)
	if err != nil {
		return nil, err
	}
	program := ""
	if m.variant.Backend != stages.Kernel {
		if program, err = m.NS3.Identity(); err != nil {
			return nil, nil // the stage reports it
		}
	}
	into := map[int32][]int32{} // links by the node they lead to: a link's feeders lead to its source
	for _, l := range m.Network.Links {
		into[l.Dst] = append(into[l.Dst], l.ID)
	}
	keys := make([]string, len(tasks))
	for n, t := range tasks {
		k := caseKey{m: m, loads: loads, h: xxh3.New()}
		_, _ = k.h.Write(params) // a hash takes everything
		_, _ = k.h.WriteString(program)
		k.add(methodVersion, int64(m.variant.Estimator), loads.FirstStartNS, loads.LastStartNS)
		for id := range m.Network.Links {
			if m.Network.FromHost(int32(id)) { // the sources of all cases
				k.bandwidths(int32(id))
			}
		}
		for id := int32(t.Lo); id < int32(t.Hi); id++ {
			k.add(int64(digests[id]))
			k.bandwidths(id)
			if m.variant.Estimator == stages.Flow || m.Spec.Params.NeedsPaths() { // cases have feeders, or paths have limits
				for _, feeder := range into[m.Network.Links[id].Src] {
					k.bandwidths(feeder)
				}
			}
		}
		keys[n] = keyOf(k.h)
	}
	return keys, nil
}

// A caseKey is the digest of what a task's link cases depend on.
type caseKey struct {
	m     *method
	loads *stages.Loads
	h     *xxh3.Hasher
}

func (k *caseKey) add(values ...int64) {
	var b [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		_, _ = k.h.Write(b[:])
	}
}

func (k *caseKey) bandwidths(id int32) {
	l := k.m.Network.Links[id]
	k.add(int64(id), l.BandwidthBps, l.DelayNS, k.loads.AvailableBps(&k.m.Spec.Params, l))
}
