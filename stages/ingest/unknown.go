package ingest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// Reasons of rows whose addresses are no hosts.
const (
	unknownSrc = "src is not a host of the topology"
	unknownDst = "dst is not a host of the topology"
)

// maxUnknown is the number of addresses that a RejectCount lists.
const maxUnknown = 20

// An UnknownAddress is an address that is no host of the topology, with the rows that were rejected for it.
type UnknownAddress struct {
	Address string `json:"address"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
}

// hostsRules are the ranges of a hosts table that find an address and those near it (its /24, or /64 for IPv6), and all
// others.
func hostsRules(address string) (near, all string) {
	near, all = address, "0.0.0.0/0"
	if a, err := netip.ParseAddr(strings.TrimSpace(address)); err == nil {
		bits := 24
		if !a.Is4() {
			bits, all = 64, "::/0"
		}
		near = netip.PrefixFrom(a, bits).Masked().String()
	}
	return near, all
}

// addUnknown lists, with the reasons, the addresses that are no hosts: those with the most bytes, these first.
func (in *Ingester) addUnknown(ctx context.Context, reasons []RejectCount) error {
	for i := range reasons {
		r := &reasons[i]
		column := map[string]string{unknownSrc: "src", unknownDst: "dst"}[r.Reason]
		if column == "" {
			continue
		}
		err := in.each(ctx, fmt.Sprintf(`
SELECT %s, count(*), CAST(least(sum(whole_bytes), 9e18) AS BIGINT) AS bytes
FROM judged WHERE reason = %s GROUP BY ALL ORDER BY bytes DESC, 1 LIMIT %d`,
			column, duckdb.Quote(r.Reason), maxUnknown), func(rows *sql.Rows) error {
			var u UnknownAddress
			err := rows.Scan(&u.Address, &u.Rows, &u.Bytes)
			r.Unknown = append(r.Unknown, u)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AddReasons adds up lists of reasons, most rows first.
func AddReasons(lists ...[]RejectCount) (all []RejectCount) {
	for _, r := range slices.Concat(lists...) {
		i := slices.IndexFunc(all, func(a RejectCount) bool { return a.Reason == r.Reason })
		if i < 0 {
			all = append(all, r)
			continue
		}
		all[i].Rows += r.Rows
		all[i].Unknown = addAddresses(all[i].Unknown, r.Unknown)
	}
	slices.SortFunc(all, func(a, b RejectCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// addAddresses adds up two lists and keeps the addresses with the most bytes.
func addAddresses(a, b []UnknownAddress) []UnknownAddress {
	all := slices.Clone(a)
	for _, u := range b {
		i := slices.IndexFunc(all, func(v UnknownAddress) bool { return v.Address == u.Address })
		if i < 0 {
			all = append(all, u)
			continue
		}
		all[i].Rows += u.Rows
		all[i].Bytes += u.Bytes
	}
	slices.SortFunc(all, func(a, b UnknownAddress) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Address, b.Address))
	})
	return all[:min(len(all), maxUnknown)]
}

// String is the reason with its number of rows, an example and, for addresses that are no hosts, those with the most
// bytes and how to find them.
func (r RejectCount) String() string {
	text := fmt.Sprintf("%d × %s (first: %.120s)", r.Rows, r.Reason, r.Example)
	if len(r.Unknown) == 0 {
		return text
	}
	var most []string
	for _, u := range r.Unknown[:min(5, len(r.Unknown))] {
		most = append(most, fmt.Sprintf("%s with %d bytes", u.Address, u.Bytes))
	}
	near, all := hostsRules(r.Unknown[0].Address)
	return text + fmt.Sprintf("\nmost bytes: %s. A line %s,NODE in the hosts table finds the first and those near it, "+
		"%s,NODE all others; NODE is where they are attached, such as a gateway", strings.Join(most, ", "), near, all)
}
