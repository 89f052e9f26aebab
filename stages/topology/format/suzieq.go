package format

import (
	"path/filepath"
	"strings"
)

// suzieqFiles returns the Parquet files of SuzieQ's table lldp: DIR/namespace=NAME/hostname=NAME/FILE. The
// path may be shorter, and may begin with sqvers=NUMBER.
func suzieqFiles(dir string) ([]string, error) {
	const host = "hostname=*/*.parquet"
	return glob(
		dir,
		host,
		"namespace=*/"+host,
		"sqvers=*/namespace=*/"+host,
		"lldp/sqvers=*/namespace=*/"+host,
	)
}

// pathValue returns the value of a key in a path, as in hostname=leaf1.
func pathValue(file, key string) string {
	for part := range strings.SplitSeq(filepath.ToSlash(file), "/") {
		value, is := strings.CutPrefix(part, key+"=")
		if is {
			return value
		}
	}
	return ""
}

// readSuzieQ reads the rows of all files as one table, and adds the columns that are part of the paths. If a
// port has several rows, those that were polled last apply.
func readSuzieQ(d *draft) {
	all := newTable(
		d,
		d.files[0],
		[]string{"namespace", "hostname", "ifname", "peerHostname", "peerIfname", "active"},
	)
	newest := map[[3]string]int64{}
	type polled struct {
		row  []string
		at   place
		when int64
	}
	var rows []polled
	when := &column{names: []string{"timestamp"}}
	for _, file := range d.files {
		t := openTable(d, file, when)
		if t == nil {
			return
		}
		for i := range t.rows {
			p := polled{at: t.place(i)}
			for _, name := range all.headers {
				cell := t.cell(i, &column{names: []string{name}})
				if cell == "" {
					cell = pathValue(file, name)
				}
				p.row = append(p.row, cell)
			}
			p.when, _ = t.integer(i, 64, when)
			key := [3]string(p.row[:3])
			newest[key] = max(newest[key], p.when)
			rows = append(rows, p)
		}
	}
	older := 0
	for _, p := range rows {
		if p.when < newest[[3]string(p.row[:3])] {
			older++
			continue
		}
		all.add(p.row, p.at.line)
		all.fileOf = append(all.fileOf, p.at.file)
	}
	d.count(older, "row", "left out: %s that were polled before the last of their port")
	r := newCablingReader(all)
	if r.chooseColumns() {
		r.readRows()
	}
}
