package schema

import "github.com/apache/arrow/go/v17/arrow"

// Batches is a stream of record batches of one table.
//
//   - Next returns the next batch, or io.EOF after the last one. A batch is never empty. After an
//     error, Next returns that error again.
//   - The caller owns a returned batch and releases it. Its columns are valid until then.
//   - A stream is used by one goroutine at a time. Close may be called at any time, once, and frees the
//     resources of the stream. Batches that were returned before stay valid.
type Batches interface {
	Next() (arrow.Record, error)
	Close() error
}

// Sink accepts the record batches of one table, in order. Write does not retain the batch: the caller owns it
// before and after. A sink is used by one goroutine at a time.
type Sink interface {
	Write(arrow.Record) error
}
