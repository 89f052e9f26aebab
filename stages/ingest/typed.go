package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// canonicalColumn is a column that a mapping may yield, and its SQL type. Type "protocol" stands for a number, or a
// name such as tcp, of an IP protocol, and becomes a SMALLINT.
type canonicalColumn struct{ name, typ string }

var canonical = []canonicalColumn{
	{"row", "BIGINT"}, {"flow_id", "BIGINT"}, {"src", "VARCHAR"}, {"dst", "VARCHAR"}, {"protocol", "protocol"},
	{"src_port", "INTEGER"}, {"dst_port", "INTEGER"}, {"observer", "VARCHAR"}, {"size_bytes", "BIGINT"},
	{"sampling_rate", "BIGINT"}, {"start_ns", "BIGINT"}, {"end_ns", "BIGINT"}, {"start_resolution_ns", "BIGINT"},
	{"sampled", "BOOLEAN"}, {"service", "VARCHAR"}, {"vnet", "VARCHAR"}, {"set_aside", "VARCHAR"},
}

// bounded calls do, which runs the SQL of the mapping. Where that is the user's own, the process has no more memory
// meanwhile than the limit.
func (in *Ingester) bounded(do func() error) error {
	if !in.o.Mapping.foreign {
		return do()
	}
	undo, err := in.limits().LimitProcess()
	if err != nil {
		return err
	}
	err = do()
	if duckdb.IsOutOfMemory(err) {
		err = fmt.Errorf("it needs more memory than its limit: %w", err)
	}
	return errors.Join(err, undo())
}

// typed runs the mapping and writes the canonical columns with their types; NULL where a value is not of the type.
// Another column, has_id, says whether there is a value for flow_id.
func (in *Ingester) typed(ctx context.Context, out string) (anyFlowID bool, err error) {
	m := in.o.Mapping
	var have map[string]flowColumn
	err = in.bounded(func() (err error) {
		have, err = in.mappingColumns(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	var list []string
	for _, k := range canonical {
		c, ok := have[k.name]
		text, err := k.cast(c, ok)
		if err != nil {
			return false, fmt.Errorf("mapping %s: %w", m.Name, err)
		}
		list = append(list, text+" AS "+duckdb.Ident(k.name))
		if k.name == "flow_id" && ok && c.typ == "VARCHAR" { // NULL and text that is not an id are different
			list = append(list, "nullif(trim("+duckdb.Ident(c.name)+"), '') IS NOT NULL AS has_id")
		} else if k.name == "flow_id" {
			list = append(list, fmt.Sprintf("%v AS has_id", ok))
		}
	}
	err = in.bounded(func() error {
		return in.copy(ctx, "SELECT "+strings.Join(list, ", ")+" FROM ("+m.query+")", out, false)
	})
	if err != nil {
		return false, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	err = in.query(ctx, "SELECT coalesce(bool_or(has_id), false) FROM "+duckdb.ScanParquet(out), &anyFlowID)
	return anyFlowID, err
}

// checkMapping returns an error unless the mapping is one SELECT from view source.
func (in *Ingester) checkMapping(ctx context.Context) error {
	reads, err := duckdb.InspectSelect(ctx, in.conn, in.o.Mapping.query)
	if err != nil {
		return err
	}
	for name := range reads.Relations {
		if name != "source" && !reads.Defined[name] || strings.ContainsAny(name, "./") {
			return fmt.Errorf("table %q is not allowed", name)
		}
	}
	if reads.Metadata {
		return errors.New("SHOW and DESCRIBE are not allowed")
	}
	return nil
}

// mappingColumns returns the columns that the mapping yields, by name in lower case.
func (in *Ingester) mappingColumns(ctx context.Context) (map[string]flowColumn, error) {
	if err := in.checkMapping(ctx); err != nil {
		return nil, err
	}
	columns, err := in.columns(ctx, "SELECT * FROM ("+in.o.Mapping.query+")")
	if err != nil {
		return nil, err
	}
	have := map[string]flowColumn{}
	for _, c := range columns {
		name := strings.ToLower(c.name)
		have[name] = c
		if !slices.ContainsFunc(canonical, func(k canonicalColumn) bool { return k.name == name }) {
			return nil, fmt.Errorf("yields column %s, which is not a canonical column", c.name)
		}
	}
	for _, required := range []string{"row", "src", "dst", "size_bytes", "start_ns"} {
		if have[required].name == "" {
			return nil, fmt.Errorf("yields no column %s", required)
		}
	}
	return have, nil
}

// cast returns the SQL that casts a column of the mapping, if there is one, to the canonical type.
func (k canonicalColumn) cast(c flowColumn, ok bool) (string, error) {
	name := duckdb.Ident(c.name)
	switch {
	case !ok && k.typ == "protocol":
		return "CAST(NULL AS SMALLINT)", nil
	case !ok:
		return fmt.Sprintf("CAST(NULL AS %s)", k.typ), nil
	case k.typ == "protocol":
		t := "upper(trim(CAST(" + name + " AS VARCHAR)))"
		return "CASE " + t + " WHEN 'TCP' THEN 6 WHEN 'UDP' THEN 17 WHEN 'ICMP' THEN 1 WHEN 'IPV6-ICMP' THEN 58 " +
			"WHEN 'ICMPV6' THEN 58 WHEN 'SCTP' THEN 132 ELSE TRY_CAST(" + t + " AS UTINYINT) END::SMALLINT", nil
	case k.typ == "VARCHAR":
		return "CAST(" + name + " AS VARCHAR)", nil
	case k.typ == "BOOLEAN":
		return "TRY_CAST(" + name + " AS BOOLEAN)", nil
	}
	text := wholeNumber(name, c.typ, k.typ)
	if text == "" {
		return "", fmt.Errorf("column %s is of type %s, want integers", c.name, c.typ)
	}
	return text, nil
}
