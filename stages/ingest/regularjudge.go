package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// A regularAddress is what the address book says about an address.
type regularAddress struct {
	node, class   int32
	isHost, isOff bool
	unknown       [2]addressSum // rows that are rejected because this source or this destination is not a host
}

type addressSum struct{ rows, bytes int64 }

// These are limits of the addresses that are remembered.
const (
	maxAddresses    = 1 << 18
	maxAddressBytes = 256
)

// address returns the entry of an address. It returns nil for an address that may be several nodes or is too
// long, and for one that is not a host if too many are remembered.
func (r *regularRows) address(text []byte) *regularAddress {
	a, known := r.addresses[string(text)]
	if known || len(text) > maxAddressBytes {
		return a
	}
	address := string(text)
	isFull := len(r.addresses) == maxAddresses
	node, err := r.book.host(address)
	switch {
	case err != nil:
	case node >= 0 && r.book.isHosts[node]:
		a = &regularAddress{node: node, class: r.book.class(address), isHost: true}
	case !isFull:
		a = &regularAddress{node: node, isOff: node < 0 && r.book.isOff(address)}
	}
	if !isFull {
		r.addresses[address] = a
	}
	return a
}

// asideReason returns why a row is not a flow by its own account, and "" for other rows.
func (r *regularRows) asideReason() string {
	for i := range r.layout.aside {
		a := &r.layout.aside[i]
		for _, text := range a.texts {
			if string(r.fields[a.at]) == text {
				return a.says + text
			}
		}
	}
	return ""
}

// isUsual reports whether the values of a record are in the ranges of most rows. The reasons for which others
// are rejected are those of view judged.
func (r *regularRows) isUsual(v *regularRecord) bool {
	if v.bytes < 0 || v.bytes > maxFlowBytes/v.rate {
		return false
	}
	if v.start.ns > maxStartNS || v.end.ns < v.start.ns || v.end.ns > maxStartNS {
		return false
	}
	if !r.m.Records {
		return v.bytes > 0
	}
	return v.hasTime()
}

// reason returns why a usual record is rejected, as view judged has it, and "" for others.
func (r *regularRows) reason(v *regularRecord) string {
	switch {
	case r.m.Records && v.bytes == 0:
		return noBytes
	case v.src.isOff || v.dst.isOff:
		return offFabric
	case !v.src.isHost:
		v.src.unknown[0].add(v)
		return unknownSrc
	case !v.dst.isHost:
		v.dst.unknown[1].add(v)
		return unknownDst
	case v.src.node == v.dst.node:
		return sameHost
	}
	header := int64(headerBytes)
	if slices.Contains(r.value(ofSrc), ':') {
		header += 20
	}
	if v.protocol == 6 && v.packets >= 0 && v.bytes >= 40*v.packets && v.bytes <= header*v.packets {
		return acksAlone
	}
	return ""
}

func (s *addressSum) add(v *regularRecord) {
	s.rows++
	s.bytes = min(s.bytes+v.bytes*v.rate, maxSum)
}

// maxSum is the largest number of bytes of an address that is reported.
const maxSum = int64(9e18)

// hasClearEnds reports whether no end of a row may be several nodes, which ends an ingest.
func (r *regularRows) hasClearEnds() bool {
	for _, end := range []valueOf{ofSrc, ofDst} {
		text := r.value(end)
		if len(text) > 0 && r.address(text) == nil {
			return false
		}
	}
	return true
}

// regularRejects are the regular rows that are rejected, in a file.
type regularRejects struct {
	n    int64
	w    *lineWriter
	file *os.File
}

// reject rejects a row of the file.
func (r *regularRows) reject(line []byte, row int64, reason string) error {
	j := &r.rejects
	if j.w == nil {
		var err error
		j.file, err = os.Create(filepath.Join(r.dir, "rejects.parquet"))
		if err != nil {
			return err
		}
		j.w = newLineWriter(j.file)
	}
	j.n++
	if r.m.reads == "csv" && r.separator != ',' {
		line = bytes.ReplaceAll(line, []byte{r.separator}, []byte{','})
	}
	return j.w.put(textLine{row, string(line[:min(len(line), maxRaw)]), 0, reason})
}

// close closes the file of the rejects. It is removed with its directory.
func (j *regularRejects) close() error {
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}

// A rejectReader reads rejects in the order of rows.
type rejectReader struct {
	rows   *parquet.GenericReader[textLine] // nil: there are none
	buffer []textLine
	at     int // in buffer
}

// open returns a reader of the rejects. No more of them are added.
func (j *regularRejects) open() (*rejectReader, error) {
	if j.n == 0 {
		return &rejectReader{}, nil
	}
	err := errors.Join(j.w.flush(), j.w.w.Close())
	if err != nil {
		return nil, err
	}
	info, err := j.file.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(j.file, info.Size())
	if err != nil {
		return nil, err
	}
	return &rejectReader{rows: parquet.NewGenericReader[textLine](file)}, nil
}

// next returns the next reject, or nil at the end. It is valid until the call after skip.
func (r *rejectReader) next(ctx context.Context) (*textLine, error) {
	if r.at < len(r.buffer) {
		return &r.buffer[r.at], nil
	}
	if r.rows == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.buffer = slices.Grow(r.buffer[:0], batchRows)[:batchRows]
	r.at = 0
	n, err := r.rows.Read(r.buffer)
	r.buffer = r.buffer[:n]
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n == 0:
		return nil, r.close()
	}
	return &r.buffer[0], nil
}

// skip goes to the reject after the one that next has returned.
func (r *rejectReader) skip() { r.at++ }

func (r *rejectReader) close() error {
	if r.rows == nil {
		return nil
	}
	rows := r.rows
	r.rows = nil
	return rows.Close()
}

// writeRejects writes the regular rows that are rejected, and the rejects of staged rows in a file, to table
// rejects. The file is empty if there are none. It returns the reasons as Ingester.reasons does.
func (r *regularRows) writeRejects(ctx context.Context, source, staged string) (_ []RejectCount, err error) {
	rejects, err := r.rejects.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rejects.close()) }()
	m := &rejectsMerge{source: source, out: r.out.Rejects, rejects: rejects, reasons: map[string]*RejectCount{}}
	m.b = array.NewRecordBuilder(memory.DefaultAllocator, schema.Rejects.Arrow())
	defer m.b.Release()
	if staged != "" {
		err = columns.ForEach(r.o.Open(schema.Rejects, staged), func(batch arrow.Record) error {
			return m.addStaged(ctx, batch)
		})
	}
	if err == nil {
		err = m.addRegular(ctx, math.MaxInt64)
	}
	if err == nil {
		err = m.flush()
	}
	var reasons []RejectCount
	for _, count := range m.reasons {
		reasons = append(reasons, *count)
	}
	slices.SortFunc(reasons, func(a, b RejectCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return reasons, err
}

// A rejectsMerge writes the rejects of a file in the order of rows, and counts their reasons.
type rejectsMerge struct {
	source  string
	out     schema.Sink
	rejects *rejectReader
	b       *array.RecordBuilder
	bytes   int // of raw rows in the batch
	reasons map[string]*RejectCount
}

// addStaged adds the rejects in a batch, and the regular ones before each of them.
func (m *rejectsMerge) addStaged(ctx context.Context, batch arrow.Record) error {
	rows := columns.Int64s(batch, "row")
	reverse := columns.Named(batch, "reverse").(*array.Boolean)
	reasons := columns.Named(batch, "reason").(*array.String)
	raw := columns.Named(batch, "raw").(*array.String)
	for i, row := range rows {
		if err := m.addRegular(ctx, row); err != nil {
			return err
		}
		m.b.Field(2).(*array.BooleanBuilder).Append(reverse.Value(i))
		if err := m.add(row, reasons.Value(i), raw.Value(i)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// addRegular adds the regular rejects before a row.
func (m *rejectsMerge) addRegular(ctx context.Context, before int64) error {
	for {
		line, err := m.rejects.next(ctx)
		if err != nil || line == nil || line.Row >= before {
			return err
		}
		m.b.Field(2).(*array.BooleanBuilder).Append(false)
		if err := m.add(line.Row, line.Broken, line.Line); err != nil {
			return err
		}
		m.rejects.skip()
	}
}

// add adds a row to the batch, in which its direction is already.
func (m *rejectsMerge) add(row int64, reason, raw string) error {
	m.b.Field(0).(*array.StringBuilder).Append(m.source)
	m.b.Field(1).(*array.Int64Builder).Append(row)
	m.b.Field(3).(*array.StringBuilder).Append(reason)
	m.b.Field(4).(*array.StringBuilder).Append(raw)
	count := m.reasons[reason]
	if count == nil {
		count = &RejectCount{Reason: strings.Clone(reason), Example: fmt.Sprintf("row %d: %s", row, raw)}
		m.reasons[count.Reason] = count
	}
	count.Rows++
	m.bytes += len(raw)
	if m.b.Field(0).Len() < columns.BatchRows && m.bytes < batchBytes {
		return nil
	}
	return m.flush()
}

// flush writes the batch.
func (m *rejectsMerge) flush() error {
	m.bytes = 0
	batch := m.b.NewRecord()
	defer batch.Release()
	if batch.NumRows() == 0 {
		return nil
	}
	return m.out.Write(batch)
}

// addTo adds the regular rows that are rejected because this address is not a host to the staged rows of the
// address. end is 0 for the source and 1 for the destination.
func (a *regularAddress) addTo(u *UnknownAddress, end int) {
	if a == nil {
		return
	}
	u.Rows += a.unknown[end].rows
	u.Bytes = min(u.Bytes+a.unknown[end].bytes, maxSum)
	a.unknown[end] = addressSum{}
}
