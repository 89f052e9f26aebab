package reconcile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// counterColumns are the columns of a file of counters, with their common names in lower case.
var counterColumns = []struct {
	column   string
	names    []string
	optional bool
}{
	{"time", []string{"time", "timestamp", "_time", "ts", "date"}, false},
	{"device", []string{"device", "host", "hostname", "sysname", "node", "switch", "agent_host"}, false},
	{"port", []string{"port", "interface", "ifname", "ifdescr", "if_name"}, false},
	{"bytes", []string{"bytes", "octets", "ifhcoutoctets", "ifoutoctets", "out_octets", "tx_bytes"}, false},
	{"direction", []string{"direction", "dir"}, true},
}

// CounterColumns returns the names of the columns of counters.
func CounterColumns() (all []string) {
	for _, c := range counterColumns {
		all = append(all, c.column)
	}
	return all
}

// A counterReader reads a file of counters.
type counterReader struct {
	*Counters
	network *topology.Network
	options CounterOptions
	ports   map[counterPort]int32
	devices map[string]bool
	at      map[string]int // positions of columns
	samples map[counterEnd][]sample
	last    map[counterEnd]int64 // latest time so far
}

// read reads all rows.
func (r *counterReader) read() error {
	file, err := topology.Open(r.options.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("is no regular file")
	}
	in := csv.NewReader(file)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("is empty, want a header with time, device, port and bytes")
	}
	if err == nil {
		err = r.findColumns(header)
	}
	if err != nil {
		return err
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil { // it names the line
			return err
		}
		r.Rows++
		line, _ := in.FieldPos(0)
		reason := r.add(row, int64(line))
		if reason != "" {
			r.setAside(reason, int64(line))
		}
	}
}

// findColumns finds the columns by the names that were given, or by common names.
func (r *counterReader) findColumns(header []string) error {
	var names []string
	for _, name := range header {
		names = append(names, strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))))
	}
	r.at = map[string]int{}
	for _, c := range counterColumns {
		wanted := c.names
		given, stated := r.options.Columns[c.column]
		if stated {
			wanted = []string{strings.ToLower(given)}
		}
		var found []int
		for i, name := range names {
			if slices.Contains(wanted, name) {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 1:
			r.at[c.column] = found[0]
		case len(found) > 1:
			return fmt.Errorf("several columns may be the %s: say which (--counter-column "+
				"%s=NAME)", c.column, c.column)
		case !c.optional || stated:
			return fmt.Errorf("has no column %s, but %s: say which it is (--counter-column %s=NAME)",
				strings.Join(wanted, " or "), strings.Join(names, ", "), c.column)
		}
	}
	return nil
}

// add adds a row, or returns the reason why it has no bytes.
func (r *counterReader) add(row []string, line int64) (reason string) {
	value := func(column string) string { return strings.TrimSpace(row[r.at[column]]) }
	device := strings.ToLower(value("device"))
	if !r.devices[device] {
		return unknownDevice
	}
	id, known := r.ports[counterPort{device, strings.ToLower(value("port"))}]
	switch {
	case !known:
		return unknownPort
	case id < 0:
		return sharedPort
	}
	receives := false
	if _, stated := r.at["direction"]; stated {
		switch strings.ToLower(value("direction")) {
		case "out", "tx", "egress":
		case "in", "rx", "ingress":
			receives = true
			id = topology.Reverse(id)
		default:
			return badDirection
		}
	}
	atNS, err := counterTime(value("time"))
	if err != nil {
		return badTime
	}
	bytes, err := strconv.ParseUint(value("bytes"), 10, 64)
	if err != nil {
		return badBytes
	}
	end := counterEnd{id, receives}
	last, seen := r.last[end]
	if seen && atNS < last {
		r.Unsorted++
	}
	r.last[end] = max(last, atNS)
	r.samples[end] = append(r.samples[end], sample{atNS: atNS, bytes: bytes, line: line})
	return ""
}

// counterTime parses a time of RFC 3339, or a number of s, ms, µs or ns since 1970, which differ by their
// size. Seconds may have decimals.
func counterTime(text string) (ns int64, err error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return units.ParseDate(text)
		}
		if !(s >= 0 && s < 1e9*8) {
			return 0, errors.New("out of range")
		}
		return int64(math.Round(s * 1e9)), nil
	}
	if n < 0 {
		return 0, errors.New("before 1970")
	}
	for _, unit := range []struct{ below, ns int64 }{{8e9, 1e9}, {8e12, 1e6}, {8e15, 1e3}} {
		if n < unit.below {
			return n * unit.ns, nil
		}
	}
	return n, nil
}
