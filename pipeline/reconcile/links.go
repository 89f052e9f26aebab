package reconcile

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/units"
	"parsimon/stages/route"
	"parsimon/stages/traffic"
)

// maxSlots bounds the slots of a comparison.
const maxSlots = 100_000

// near is the relative difference up to which simulated bytes count as equal to those of the log.
const near = 0.01

// EarlierShare is the share of a link's bytes from which Links.Earlier names the link.
const EarlierShare = traffic.EarlierShare

// worstLinks is the number of links in Links.Worst and in Links.Earlier.
const worstLinks = 10

// Bytes are those of a link, or of all flows.
type Bytes struct {
	Log       int64 `json:"log_bytes"`
	Simulated int64 `json:"simulated_bytes"` // within the part of the log
	Earlier   int64 `json:"earlier_bytes"`   // of Log; their transfers began before the part
	After     int64 `json:"after_bytes"`     // simulated after the part
}

// Difference returns the ratio of the simulated bytes of the part to those of the log, minus 1. It is NaN if
// the log has none.
func (b *Bytes) Difference() float64 { return float64(b.Simulated)/float64(b.Log) - 1 }

func (b *Bytes) add(r *piece) {
	b.Log += r.Log
	b.Simulated += r.Simulated
	b.Earlier += r.Earlier
}

// A Link has the bytes of a link in all slots.
type Link struct {
	ID   int32  `json:"link_id"`
	Name string `json:"link"`
	Tier string `json:"tier"`
	Bytes
	// Misplaced is the sum of the absolute differences between Simulated and Log over all slots.
	Misplaced int64 `json:"misplaced_bytes"`
}

// Links compares the bytes of links in slots of time.
type Links struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
	SlotNS int64 `json:"slot_ns"`
	// Flows has the bytes of all flows with a path. Each flow counts once. NoPath has the bytes of the log
	// without a path.
	Flows  Bytes `json:"flows"`
	NoPath int64 `json:"no_path_bytes"`
	// Near is the share of the log's bytes, summed over links, in slots in which the simulated bytes of the link
	// differ by at most 1%.
	Near float64 `json:"within_1_percent"`
	// Worst are the links with the most Misplaced bytes. Earlier are those of which Bytes.Earlier is at least
	// EarlierShare; EarlierLinks counts them.
	Worst        []Link `json:"worst_links"`
	Earlier      []Link `json:"earlier_links,omitempty"`
	EarlierLinks int    `json:"links_with_earlier_bytes"`
	// DifferLinks is the number of links whose bytes in the log and in the counters differ by more than
	// counterDifference. Differ are those with the largest differences. Counted has the bytes of all links in
	// slots that the counters cover. All are empty without counters.
	Differ      []CountedLink `json:"links_that_differ,omitempty"`
	DifferLinks int           `json:"links_that_differ_count"`
	Counted     CountedLink   `json:"counted"`
	// File has the rows of table validation_links. It is not published.
	File lake.DataFile `json:"-"`
}

// A CountedLink has the bytes of a link in slots that the counters of its interface cover.
type CountedLink struct {
	ID      int32  `json:"link_id"`
	Name    string `json:"link"`
	Log     int64  `json:"log_bytes"`
	Counted int64  `json:"counted_bytes"`
	ns      int64  // length of the slots
}

// Difference returns the ratio of the bytes of the log to the counted bytes, minus 1.
func (c *CountedLink) Difference() float64 { return float64(c.Log)/float64(c.Counted) - 1 }

// differs reports whether the log and the counters differ by more than counterDifference of the counted
// bytes, and by more than idleShare of what the link can carry. An idle link carries only routing protocols.
func (c *CountedLink) differs(bps int64) bool {
	off := float64(max(c.Log-c.Counted, c.Counted-c.Log))
	return off > counterDifference*float64(c.Counted) && off > idleShare*float64(bps)/8e9*float64(c.ns)
}

// Limits of CountedLink.differs.
const (
	counterDifference = 0.1
	idleShare         = 0.001
)

// A piece has the bytes of a connection in a slot, or of a link in the current slot.
type piece struct {
	Connection int64 `col:"connection_id"`
	Src        int32 `col:"src"`
	Dst        int32 `col:"dst"`
	Slot       int64 `col:"slot"`
	Log        int64 `col:"log_bytes"`
	Simulated  int64 `col:"simulated_bytes"`
	Earlier    int64 `col:"earlier_bytes"`
}

var pieces = schema.Table{
	Name: "pieces", Temporary: true,
	Columns: slices.Concat(schema.Flows.Select("connection_id", "src", "dst"),
		[]schema.Column{{Name: "slot", Type: arrow.PrimitiveTypes.Int64}},
		schema.ValidationLinks.Select("log_bytes", "simulated_bytes", "earlier_bytes")),
}

//go:embed links.sql
var linksSQL string

// Links compares the bytes of every link in slots of slotNS, which begin at multiples of it since 1970. It
// writes a file of table validation_links. Without counters, these are nil. DuckDB spills to disk; in
// addition, Links needs 150 bytes per link.
func (l *Log) Links(ctx context.Context, db *sql.DB, slotNS int64, counters *Counters) (*Links, error) {
	originNS := l.FromNS / slotNS * slotNS
	slots := (l.ToNS-1-originNS)/slotNS + 1
	if slots > maxSlots {
		return nil, fmt.Errorf("the part of the log has %d slots, and %d are possible: take longer "+
			"slots", slots, maxSlots)
	}
	file := filepath.Join(l.run.Executor().Session().TmpPath(), "pieces.parquet")
	query := l.expand(linksSQL, map[string]any{
		"slot_ns": slotNS, "origin_ns": originNS, "from_ns": l.FromNS, "to_ns": l.ToNS, "after": slots,
	})
	_, err := db.ExecContext(ctx, "COPY ("+query+") TO "+duckdb.Quote(file)+" (FORMAT parquet, COMPRESSION "+
		"snappy)")
	if err != nil {
		return nil, duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
	at := lake.Place{Scenario: l.run.ID(), Variant: l.run.Variant().Stored()}
	out, err := l.run.Executor().Session().Create(schema.ValidationLinks, at,
		at.Dir(schema.ValidationLinks)+"/part-log.parquet")
	if err != nil {
		return nil, err
	}
	defer out.Abandon()
	s := &summing{
		log: l, originNS: originNS, slots: slots, out: out, counters: counters,
		counted: make([]CountedLink, len(l.run.Network.Links)),
		links:   make([]Link, len(l.run.Network.Links)), now: make([]piece, len(l.run.Network.Links)),
	}
	s.FromNS = l.FromNS
	s.ToNS = l.ToNS
	s.SlotNS = slotNS
	err = columns.Each(parquet.OpenForeign(pieces, file), func(r *piece) error {
		return cmp.Or(ctx.Err(), s.add(r))
	})
	err = errors.Join(err, os.Remove(file))
	if err == nil {
		err = s.advance(slots)
	}
	if err == nil && s.logSum == 0 {
		err = fmt.Errorf("no bytes of the log have a path between %s and "+
			"%s", units.Time(l.FromNS), units.Time(l.ToNS))
	}
	if err == nil {
		s.File, err = out.Commit()
	}
	if err != nil {
		return nil, err
	}
	s.finish()
	return &s.Links, nil
}

// A summing adds the bytes of connections to the links of their paths, one slot after another.
type summing struct {
	Links
	log      *Log
	originNS int64
	slots    int64
	out      schema.Sink
	links    []Link // by link id
	now      []piece
	slot     int64   // of now
	used     []int32 // links with bytes in the slot
	path     []int32
	nearSum  int64
	logSum   int64
	counters *Counters     // nil: none
	counted  []CountedLink // by link id
}

// add adds the bytes of a connection in a slot. Slots do not decrease.
func (s *summing) add(r *piece) (err error) {
	if err := s.advance(r.Slot); err != nil {
		return err
	}
	s.path, err = s.log.run.Router.Path(r.Connection, r.Src, r.Dst, s.path[:0])
	if route.IsUnreachable(err) {
		s.NoPath += r.Log
		return nil
	}
	if err != nil {
		return err
	}
	if s.slot == s.slots {
		s.Flows.After += r.Simulated
		for _, id := range s.path {
			s.links[id].After += r.Simulated
		}
		return nil
	}
	s.Flows.add(r)
	for _, id := range s.path {
		x := &s.now[id]
		if x.Log == 0 && x.Simulated == 0 {
			s.used = append(s.used, id)
		}
		x.Log += r.Log
		x.Simulated += r.Simulated
		x.Earlier += r.Earlier
	}
	return nil
}

// advance writes the rows of the slots before a slot.
func (s *summing) advance(slot int64) error {
	for s.slot < slot {
		if err := s.flush(); err != nil {
			return err
		}
		s.slot++
	}
	return nil
}

// flush writes the rows of the slot.
func (s *summing) flush() error {
	fromNS := max(s.originNS+s.slot*s.SlotNS, s.FromNS)
	toNS := min(s.originNS+(s.slot+1)*s.SlotNS, s.ToNS)
	counted := s.count(fromNS, toNS)
	slices.Sort(s.used)
	s.used = slices.Compact(s.used)
	if len(s.used) == 0 {
		return nil
	}
	for _, id := range s.used {
		x := &s.now[id]
		s.links[id].add(x)
		off := max(x.Simulated-x.Log, x.Log-x.Simulated)
		s.links[id].Misplaced += off
		s.logSum += x.Log
		if float64(off) <= near*float64(x.Log) {
			s.nearSum += x.Log
		}
	}
	rows := columns.RecordOf(schema.ValidationLinks, s.used, func(id int32) columns.Row {
		x := &s.now[id]
		row := columns.Row{
			"link_id": id, "from_ns": fromNS, "to_ns": toNS,
			"log_bytes": x.Log, "simulated_bytes": x.Simulated, "earlier_bytes": x.Earlier,
		}
		bytes, known := counted[id]
		if known {
			row["counted_bytes"] = bytes
		}
		return row
	})
	defer rows.Release()
	for _, id := range s.used {
		s.now[id] = piece{}
	}
	s.used = s.used[:0]
	return s.out.Write(rows)
}

// count adds what the interfaces counted in the slot, and returns it by link.
func (s *summing) count(fromNS, toNS int64) map[int32]int64 {
	if s.counters == nil {
		return nil
	}
	all := map[int32]int64{}
	for _, id := range s.counters.ids {
		bytes, known := s.counters.in(id, fromNS, toNS)
		if !known {
			continue
		}
		all[id] = bytes
		s.used = append(s.used, id)
		c := &s.counted[id]
		c.Log += s.now[id].Log
		c.Counted += bytes
		c.ns += toNS - fromNS
		s.Counted.Log += s.now[id].Log
		s.Counted.Counted += bytes
	}
	return all
}

// finish chooses the links to show.
func (s *summing) finish() {
	s.Near = float64(s.nearSum) / float64(s.logSum)
	net := s.log.run.Network
	var worst, earlier []Link
	for id, x := range s.links {
		x.ID = int32(id)
		if x.Misplaced > 0 {
			worst = append(worst, x)
		}
		if x.Earlier > 0 && float64(x.Earlier) >= EarlierShare*float64(x.Log) {
			earlier = append(earlier, x)
		}
	}
	shown := func(all []Link, most func(x *Link) int64) []Link {
		slices.SortStableFunc(all, func(a, b Link) int { return cmp.Compare(most(&b), most(&a)) })
		all = all[:min(len(all), worstLinks)]
		for i := range all {
			all[i].Name = net.LinkName(all[i].ID)
			all[i].Tier = net.Links[all[i].ID].Tier
		}
		return all
	}
	s.EarlierLinks = len(earlier)
	s.Worst = shown(worst, func(x *Link) int64 { return x.Misplaced })
	s.Earlier = shown(earlier, func(x *Link) int64 { return x.Earlier })
	for id, c := range s.counted {
		if c.differs(net.Links[id].BandwidthBps) {
			c.ID = int32(id)
			c.Name = net.LinkName(c.ID)
			s.Differ = append(s.Differ, c)
		}
	}
	slices.SortStableFunc(s.Differ, func(a, b CountedLink) int {
		return cmp.Compare(max(b.Counted-b.Log, b.Log-b.Counted), max(a.Counted-a.Log, a.Log-a.Counted))
	})
	s.DifferLinks = len(s.Differ)
	s.Differ = s.Differ[:min(len(s.Differ), worstLinks)]
}
