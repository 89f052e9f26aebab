package pipeline

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/stages"
)

// A scenario made from another shares not only what is the same by definition, its flows, but whatever
// turns out the same: a task whose whole input has the digest that the base's task had takes the base's
// files, without reading or simulating anything. What routing made of the links is digested as it is
// written, link by link.

// hopDigests passes hops on and digests each link's.
type hopDigests struct {
	to    schema.Sink
	links []uint64 // by link id
	rows  []uint64 // digests of a batch's rows
}

// oddDigest is an odd factor that spreads bits (2^64 over the golden ratio).
const oddDigest = 0x9e3779b97f4a7c15

// Write passes a batch on.
func (d *hopDigests) Write(rec arrow.Record) error {
	at := rec.Schema().FieldIndices("link_id")[0]
	link := rec.Column(at).(*array.Int32).Int32Values()
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
		x := (d.links[id] ^ d.rows[i]) * oddDigest
		d.links[id] = x ^ x>>32
	}
	return d.to.Write(rec)
}

// digestColumn adds a column to the digests of its rows.
func digestColumn[T int16 | int32 | int64](rows []uint64, values []T) {
	rows = rows[:len(values)]
	for i, v := range values {
		x := (rows[i] ^ uint64(v)) * oddDigest
		rows[i] = x ^ x>>29
	}
}

func (r *Run) digestsPath(n int) string {
	return r.routeStage().path(r.lake, fmt.Sprintf("digests-%05d.json", n))
}

// save keeps the digests of chunk n beside the record of its task.
func (d *hopDigests) save(r *Run, n int) error {
	raw := make([]byte, 0, 8*len(d.links))
	for _, x := range d.links {
		raw = binary.LittleEndian.AppendUint64(raw, x)
	}
	return r.lake.writeState(r.digestsPath(n), raw)
}

// linkDigests are the digests of every link's hops, all chunks; nil where some are not there.
func (r *Run) linkDigests() []uint64 {
	plan, _, err := r.routeStage().complete(r.lake)
	if err != nil {
		return nil
	}
	all := make([]uint64, len(r.net.Links))
	for n := range plan.Tasks {
		var raw []byte
		if ok, err := r.lake.readState(r.digestsPath(n), &raw); err != nil || !ok || len(raw) != 8*len(all) {
			return nil
		}
		for id := range all {
			all[id] = xxh3.HashSeed(raw[8*id:8*id+8], all[id])
		}
	}
	return all
}

// caseKeys digest all that the link cases of each task depend on, as table link_stats does: the hops of
// its links, the bandwidths of their surroundings, the transport, and the span of the workload.
func (r *Run) caseKeys(tasks []task, loads *stages.Loads) ([]string, error) {
	digests := r.linkDigests()
	if digests == nil || r.cluster != nil {
		return nil, nil
	}
	params, err := json.Marshal(r.spec.Params)
	if err != nil {
		return nil, err
	}
	into := map[int32][]int32{} // links by the node they lead to: a link's feeders lead to its source
	for _, l := range r.net.Links {
		into[l.Dst] = append(into[l.Dst], l.ID)
	}
	keys := make([]string, len(tasks))
	for n, t := range tasks {
		h := xxh3.New()
		_, _ = h.Write(params) // a hash takes everything
		_, _ = h.WriteString(r.program)
		add := func(values ...int64) {
			var b [8]byte
			for _, v := range values {
				binary.LittleEndian.PutUint64(b[:], uint64(v))
				_, _ = h.Write(b[:])
			}
		}
		bandwidths := func(id int32) {
			l := r.net.Links[id]
			add(int64(id), l.BandwidthBps, loads.AvailableBps(&r.spec.Params, l))
		}
		add(methodVersion, int64(r.estimator), int64(r.ablation), loads.FirstStartNS, loads.LastStartNS)
		for id := range r.net.Links {
			if r.net.FromHost(int32(id)) { // the sources of all cases
				bandwidths(int32(id))
			}
		}
		for id := int32(t.Lo); id < int32(t.Hi); id++ {
			add(int64(digests[id]))
			bandwidths(id)
			if r.estimator == stages.Flow { // whose cases have feeders
				for _, feeder := range into[r.net.Links[id].Src] {
					bandwidths(feeder)
				}
			}
		}
		keys[n] = sumOf(h)
	}
	return keys, nil
}

func sumOf(h *xxh3.Hasher) string {
	b := h.Sum128().Bytes()
	return hex.EncodeToString(b[:])
}

// bucketKeys digest what stage bucket makes its answer of: a file of hop_delays, and the seed.
func (r *Run) bucketKeys(delays []part) []string {
	if r.cluster != nil {
		return nil
	}
	keys := make([]string, len(delays))
	for n, p := range delays {
		h := xxh3.New()
		_, _ = fmt.Fprintf(h, "%d %d %d %s %d", methodVersion, r.spec.Seed, r.spec.Params.PayloadBytes, p.Digest, p.Bytes)
		keys[n] = sumOf(h)
	}
	return keys
}

// inherit finds the tasks of a stage, of those that are mine, that the base has done on the very same
// input, and shares what came of them.
func (r *Run) inherit(s stage, plan stagePlan, keys []string, mine []bool, done []*taskRecord) error {
	if r.from == nil || keys == nil {
		return nil
	}
	base := s
	base.place.scenario = r.from.base.ScenarioID
	was, records, found, err := base.records(r.lake)
	if err != nil || !found || was.Method != methodVersion {
		return nil // nothing that can be shared
	}
	of := map[string]*taskRecord{}
	for n, rec := range records {
		if rec != nil && rec.Key != "" && len(rec.Parts) == len(s.tables) {
			of[fmt.Sprint(was.Tasks[n].Lo, was.Tasks[n].Hi, rec.Key)] = rec
		}
	}
tasks:
	for n, t := range plan.Tasks {
		rec := of[fmt.Sprint(t.Lo, t.Hi, keys[n])]
		if !mine[n] || done[n] != nil || rec == nil {
			continue
		}
		mine := taskRecord{Key: keys[n], Stats: rec.Stats}
		for i, p := range rec.Parts {
			if r.lake.check(p) != nil {
				continue tasks // damaged: done anew
			}
			shared, err := r.lake.share(p, s.place.file(s.tables[i], n))
			if err != nil {
				return err
			}
			mine.Parts = append(mine.Parts, shared)
		}
		if s.name == "simulate" {
			var did stages.SimulateStats
			if err := json.Unmarshal(rec.Stats, &did); err != nil {
				return err
			}
			if mine.Stats, err = json.Marshal(stages.SimulateStats{CachedCases: did.Cases + did.CachedCases, CachedHops: did.PacketHops + did.CachedHops}); err != nil {
				return err
			}
		}
		if err := r.lake.writeState(s.path(r.lake, recordName(n)), &mine); err != nil {
			return err
		}
		done[n] = &mine
	}
	return nil
}
