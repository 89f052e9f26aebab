package schema

import "github.com/apache/arrow/go/v17/arrow"

// Batches is a stream of record batches of one table.
//
//   - Next returns the next batch, or io.EOF after the last one; a batch is never empty. After any
//     error, Next keeps returning that error.
//   - The caller owns a returned batch and releases it; its columns stay valid until then.
//   - A stream is used by one goroutine at a time. Close may be called at any time, once, and
//     frees what the stream holds open; batches already returned outlive it.
type Batches interface {
	Next() (arrow.Record, error)
	Close() error
}

// Sink takes the record batches of one table, in order. Write does not keep the batch: the caller
// still owns it afterwards. A sink is used by one goroutine at a time.
type Sink interface {
	Write(arrow.Record) error
}
