package format

import (
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// SwitchSettings are what a switch's configuration says about marking, buffers and flow control, in
// the switch's own terms.
type SwitchSettings struct {
	Switch string         `json:"switch"`
	File   string         `json:"file"`
	Taken  []TakenSetting `json:"taken"`
	// Queues are those of each port that classifies by DSCP, by the names of the ports.
	Queues []PortQueues `json:"-"`
}

// A TakenSetting is one value and where it comes from.
type TakenSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Unit   string `json:"unit,omitempty"`
	Key    string `json:"key"` // TABLE|object|field
	File   string `json:"file"`
	Line   int    `json:"line"`
	Number int64  `json:"-"` // the value, where it has a unit
}

// Beside returns the number of another field of the object that a value is of.
func (s *SwitchSettings) Beside(k TakenSetting, field string) (number int64, has bool) {
	key := k.Key[:strings.LastIndex(k.Key, "|")+1] + field
	i := slices.IndexFunc(s.Taken, func(other TakenSetting) bool { return other.Key == key })
	if i < 0 {
		return 0, false
	}
	return s.Taken[i].Number, true
}

// sonicSettings are the fields of tables that are taken, with their names and units. The thresholds of a WRED_PROFILE
// are those of green packets: they are marked (ECN) or dropped with a probability that rises from 0 at a queue of
// marking_min to marking_max_probability at marking_max, and always above.
var sonicSettings = []struct {
	table  string
	fields [][3]string // field, name, unit
}{
	{"WRED_PROFILE", [][3]string{{"ecn", "marking"}, {"green_min_threshold", "marking_min", "bytes"},
		{"green_max_threshold", "marking_max", "bytes"}, {"green_drop_probability", "marking_max_probability", "%"}}},
	{"BUFFER_POOL", [][3]string{{"size", "pool_size", "bytes"}, {"xoff", "pool_headroom", "bytes"}}},
	{"BUFFER_PROFILE", [][3]string{{"pool", "pool"}, {"size", "reserved", "bytes"}, {"xon", "xon", "bytes"},
		{"xoff", "xoff", "bytes"}, {"xon_offset", "xon_offset", "bytes"},
		{"dynamic_th", "dynamic_threshold", "log2"}, // the share alpha of the free pool is 2^dynamic_th
		{"static_th", "static_threshold", "bytes"}}},
}

// readSettings reads the settings of one configuration.
func (d *draft) readSettings(name string, top tree.Field) {
	s := SwitchSettings{Switch: name, File: top.File}
	for _, t := range sonicSettings {
		for object, item := range d.members(top.Of(t.table)) {
			for _, k := range t.fields {
				f := item.Of(k[0])
				if f.Value == nil {
					continue
				}
				taken := TakenSetting{Name: k[1], Value: reference(f.Value.Text), Unit: k[2],
					Key: t.table + "|" + object + "|" + k[0], File: f.File, Line: f.Value.Line}
				var err error
				taken.Number, err = strconv.ParseInt(taken.Value, 10, 64)
				switch {
				case err != nil && taken.Unit != "":
					d.bad(f, "is %s, want a whole number", f.Value)
				case taken.Value != "":
					s.Taken = append(s.Taken, taken)
				}
			}
		}
	}
	d.readQueues(&s, top)
	if len(s.Taken)+len(s.Queues) > 0 {
		d.settings = append(d.settings, s)
	}
}

// reference reads a value or the name of another object: NAME, or [TABLE|NAME] in older releases.
func reference(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, name, ok := strings.Cut(text, "|"); ok {
		return name
	}
	return text
}
