package format

import (
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// SwitchSettings are what a switch's configuration says about marking, buffers and flow control, in
// the switch's own terms.
type SwitchSettings struct {
	Switch   string          `json:"switch"`
	File     string          `json:"file"`
	Marking  []MarkingRule   `json:"marking,omitempty"`
	Pools    []BufferPool    `json:"pools,omitempty"`
	Profiles []BufferProfile `json:"profiles,omitempty"`
	PFC      []PFCPorts      `json:"pfc,omitempty"`
	// Taken lists every value above with its file, line and key.
	Taken []TakenSetting `json:"taken,omitempty"`
}

// A MarkingRule is a WRED profile: packets are marked (ECN) or dropped with a probability that rises
// from 0 at a queue of MinBytes to MaxPercent at MaxBytes, and always above MaxBytes. The thresholds
// are those of green packets.
type MarkingRule struct {
	Profile    string   `json:"profile"`
	ECN        string   `json:"ecn"` // ecn_none, ecn_green, … ecn_all
	MinBytes   int64    `json:"min_bytes"`
	MaxBytes   int64    `json:"max_bytes"`
	MaxPercent int64    `json:"max_percent"`
	Queues     []string `json:"queues,omitempty"` // "ports|queue" that use the profile
}

// A BufferPool is memory that ports share.
type BufferPool struct {
	Name      string `json:"name"`
	Direction string `json:"direction"` // ingress or egress
	Mode      string `json:"mode"`      // static or dynamic
	SizeBytes int64  `json:"size_bytes"`
	XoffBytes int64  `json:"xoff_bytes,omitempty"` // headroom pool
}

// A BufferProfile is a port's or a priority group's share of a pool.
type BufferProfile struct {
	Name        string `json:"name"`
	Pool        string `json:"pool"`
	SizeBytes   int64  `json:"size_bytes"` // reserved
	XonBytes    int64  `json:"xon_bytes,omitempty"`
	XoffBytes   int64  `json:"xoff_bytes,omitempty"` // headroom behind the pause threshold
	XonOffset   int64  `json:"xon_offset_bytes,omitempty"`
	DynamicTh   *int64 `json:"dynamic_th,omitempty"` // share of the free pool: alpha = 2^DynamicTh
	StaticBytes *int64 `json:"static_bytes,omitempty"`
}

// PFCPorts are ports with priority flow control.
type PFCPorts struct {
	Ports      string `json:"ports"` // comma-separated
	Priorities []int  `json:"priorities"`
}

// A TakenSetting is one value and where it comes from.
type TakenSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Unit  string `json:"unit,omitempty"`
	Key   string `json:"key"` // TABLE|object|field
	File  string `json:"file"`
	Line  int    `json:"line"`
}

type settingsReader struct {
	*treeReader
	out *SwitchSettings
}

// readSettings reads the settings of one configuration; nil where it has none.
func readSettings(r *treeReader, name string, t *tree.Value) *SwitchSettings {
	s := settingsReader{r, &SwitchSettings{Switch: name, File: r.file}}
	queues := map[string][]string{}
	s.each(t, "QUEUE", func(key string, item *tree.Value) {
		if profile := reference(item.Get("wred_profile").Scalar()); profile != "" {
			queues[profile] = append(queues[profile], key)
		}
	})
	s.each(t, "WRED_PROFILE", func(key string, item *tree.Value) {
		s.out.Marking = append(s.out.Marking, MarkingRule{
			Profile: key, ECN: s.text(item, "WRED_PROFILE", key, "ecn", "marking"), Queues: queues[key],
			MinBytes:   s.number(item, "WRED_PROFILE", key, "green_min_threshold", "marking_min", "bytes"),
			MaxBytes:   s.number(item, "WRED_PROFILE", key, "green_max_threshold", "marking_max", "bytes"),
			MaxPercent: s.number(item, "WRED_PROFILE", key, "green_drop_probability", "marking_max_probability", "%"),
		})
	})
	s.each(t, "BUFFER_POOL", func(key string, item *tree.Value) {
		s.out.Pools = append(s.out.Pools, BufferPool{
			Name: key, Direction: item.Get("type").Scalar(), Mode: item.Get("mode").Scalar(),
			SizeBytes: s.number(item, "BUFFER_POOL", key, "size", "pool_size", "bytes"),
			XoffBytes: s.number(item, "BUFFER_POOL", key, "xoff", "pool_headroom", "bytes"),
		})
	})
	s.each(t, "BUFFER_PROFILE", func(key string, item *tree.Value) {
		number := func(field, setting, unit string) int64 {
			return s.number(item, "BUFFER_PROFILE", key, field, setting, unit)
		}
		p := BufferProfile{
			Name: key, Pool: reference(item.Get("pool").Scalar()), SizeBytes: number("size", "reserved", "bytes"),
			XonBytes: number("xon", "xon", "bytes"), XoffBytes: number("xoff", "xoff",
				"bytes"), XonOffset: number("xon_offset", "xon_offset", "bytes"),
		}
		if item.Get("dynamic_th") != nil {
			v := number("dynamic_th", "dynamic_threshold", "log2")
			p.DynamicTh = &v
		}
		if item.Get("static_th") != nil {
			v := number("static_th", "static_threshold", "bytes")
			p.StaticBytes = &v
		}
		s.out.Profiles = append(s.out.Profiles, p)
	})
	s.readPFC(t)
	if len(s.out.Taken) == 0 {
		return nil
	}
	return s.out
}

// readPFC reads the priorities with flow control of each group of ports.
func (s *settingsReader) readPFC(t *tree.Value) {
	s.each(t, "PORT_QOS_MAP", func(key string, item *tree.Value) {
		text := s.text(item, "PORT_QOS_MAP", key, "pfc_enable", "pfc_priorities")
		if text == "" {
			return
		}
		p := PFCPorts{Ports: key}
		for one := range strings.SplitSeq(text, ",") {
			priority, err := strconv.Atoi(strings.TrimSpace(one))
			if err != nil || priority < 0 || priority > 7 {
				s.bad(item, "PORT_QOS_MAP."+key+".pfc_enable", "is %q, want priorities from 0 to 7", text)
				return
			}
			p.Priorities = append(p.Priorities, priority)
		}
		s.out.PFC = append(s.out.PFC, p)
	})
}

// each calls f with the objects of a table.
func (s *settingsReader) each(t *tree.Value, table string, f func(key string, item *tree.Value)) {
	rows := t.Get(table)
	if rows == nil || !s.object(rows, table) {
		return
	}
	for i, key := range rows.Keys {
		if rows.Items[i].Kind == tree.Object {
			f(key, rows.Items[i])
		}
	}
}

// reference reads the name of another object: NAME, or [TABLE|NAME] in older releases.
func reference(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, name, ok := strings.Cut(text, "|"); ok {
		return name
	}
	return text
}

// taken records where a value comes from.
func (s *settingsReader) taken(t *tree.Value, table, key, field, setting, unit string) {
	s.out.Taken = append(s.out.Taken, TakenSetting{setting, t.Text, unit, table + "|" + key + "|" + field, s.file,
		t.Line})
}

func (s *settingsReader) text(item *tree.Value, table, key, field, setting string) string {
	t := item.Get(field)
	if t == nil {
		return ""
	}
	s.taken(t, table, key, field, setting, "")
	return t.Text
}

// number reads a whole number, which SONiC writes as a string; 0 where it is missing.
func (s *settingsReader) number(item *tree.Value, table, key, field, setting, unit string) int64 {
	t := item.Get(field)
	if t == nil {
		return 0
	}
	v, err := strconv.ParseInt(t.Text, 10, 64)
	if err != nil {
		s.bad(t, table+"."+key+"."+field, "is %s, want a whole number", t)
		return 0
	}
	s.taken(t, table, key, field, setting, unit)
	return v
}
