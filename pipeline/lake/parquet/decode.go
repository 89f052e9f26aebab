package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// A dictionary holds the distinct values of a column chunk, which data pages refer to by index.
type dictionary struct {
	numbers []int32
	items   []byte
	offsets []uint32
}

// read takes the values of a dictionary page, which are plain.
func (d *dictionary) read(body []byte, t arrow.DataType) (err error) {
	switch t.ID() {
	case arrow.INT16, arrow.INT32:
		d.numbers = append(d.numbers[:0], as[int32](body)...)
	case arrow.STRING, arrow.BINARY:
		d.items, d.offsets, err = new(plain.Encoding).DecodeByteArray(d.items[:0], body, d.offsets[:0])
	default:
		err = fmt.Errorf("%w: a dictionary of type %s", errPage, t)
	}
	return err
}

// A rowRange selects the rows from..to of a page of n.
type rowRange struct{ n, from, to int }

// decode appends rows of a page to a column.
func (r *columnReader) decode(body []byte, e format.Encoding, p rowRange, out *columnSink) (err error) {
	if e == format.RLEDictionary {
		if r.indices, err = new(rle.DictionaryEncoding).DecodeInt32(r.indices[:0], body); err != nil {
			return err
		}
		if len(r.indices) < p.n {
			return errPage
		}
	}
	switch out.typ.ID() {
	case arrow.INT16, arrow.INT32:
		return r.decodeInt32(body, e, p, out)
	case arrow.INT64:
		return r.decodeInt64(body, e, p, out)
	case arrow.FLOAT64:
		if e != format.Plain || len(body) < 8*p.n {
			return errPage
		}
		copy(out.grow(8*(p.to-p.from)), body[8*p.from:8*p.to])
	case arrow.BOOL:
		if e != format.Plain || len(body) < (p.n+7)/8 {
			return errPage
		}
		out.bits(body, p.from, p.to)
	case arrow.STRING, arrow.BINARY:
		return r.decodeItems(body, e, p, out)
	}
	return nil
}

// decodeInt32 decodes a column of int32, or of int16, which Parquet stores in 32 bits.
func (r *columnReader) decodeInt32(body []byte, e format.Encoding, p rowRange, out *columnSink) error {
	numbers := as[int32](body)
	if e == format.RLEDictionary {
		numbers = r.indices[:p.n]
		for i, at := range numbers {
			if int(at) >= len(r.dict.numbers) || at < 0 {
				return errPage
			}
			numbers[i] = r.dict.numbers[at]
		}
	} else if e != format.Plain || len(numbers) < p.n {
		return errPage
	}
	if out.typ.ID() == arrow.INT32 {
		copy(as[int32](out.grow(4*(p.to-p.from))), numbers[p.from:p.to])
		return nil
	}
	short := as[int16](out.grow(2 * (p.to - p.from)))
	for i := range short {
		short[i] = int16(numbers[p.from+i])
	}
	return nil
}

// decodeInt64 decodes a column of int64. A whole page of deltas is decoded in place.
func (r *columnReader) decodeInt64(body []byte, e format.Encoding, p rowRange, out *columnSink) (err error) {
	if e == format.DeltaBinaryPacked && p.from == 0 && p.to == p.n {
		room := as[int64](out.grow(8 * p.n))
		decoded, err := new(delta.BinaryPackedEncoding).DecodeInt64(room[:0], body)
		if err != nil || len(decoded) != p.n {
			return errors.Join(errPage, err)
		}
		if &decoded[0] != &room[0] {
			copy(room, decoded)
		}
		return nil
	}
	words := as[int64](body)
	if e == format.DeltaBinaryPacked {
		if r.words, err = new(delta.BinaryPackedEncoding).DecodeInt64(r.words[:0], body); err != nil {
			return err
		}
		words = r.words
	} else if e != format.Plain {
		return errPage
	}
	if len(words) < p.n {
		return errPage
	}
	copy(as[int64](out.grow(8*(p.to-p.from))), words[p.from:p.to])
	return nil
}

// decodeItems decodes a column of strings or of binary values.
func (r *columnReader) decodeItems(body []byte, e format.Encoding, p rowRange, out *columnSink) (err error) {
	switch e {
	case format.RLEDictionary:
		return out.appendIndexed(r.indices[p.from:p.to], &r.dict)
	case format.Plain:
		r.items, r.offsets, err = new(plain.Encoding).DecodeByteArray(r.items[:0], body, r.offsets[:0])
	case format.DeltaLengthByteArray:
		r.items, r.offsets, err = new(delta.LengthByteArrayEncoding).DecodeByteArray(r.items[:0], body, r.offsets[:0])
	default:
		err = errPage
	}
	if err != nil {
		return err
	}
	if len(r.offsets) < p.n+1 {
		return errPage
	}
	return out.appendItems(r.items, r.offsets[p.from:p.to+1])
}
