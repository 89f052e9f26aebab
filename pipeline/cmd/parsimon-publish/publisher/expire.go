package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"parsimon/pipeline/cmd/parsimon-publish/store"
)

// Expire removes the snapshots that are older than age, which is at least a day, and the files that no other
// snapshot has. It also removes the files that killed publishers have left. It applies to all tables of the
// store, including those that this call does not publish.
func (p *Publisher) Expire(ctx context.Context, age time.Duration) error {
	for _, t := range append(p.others(), p.Tables...) {
		if err := p.expire(ctx, t.Name, age); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

func (p *Publisher) expire(ctx context.Context, name string, age time.Duration) error {
	for attempt := 1; ; attempt++ {
		now, err := p.Catalog.LoadTable(ctx, store.Identify(name))
		if errors.Is(err, catalog.ErrNoSuchTable) {
			return nil
		}
		if err != nil {
			return err
		}
		txn := now.NewTransaction()
		if err := txn.ExpireSnapshots(table.WithOlderThan(age), table.WithRetainLast(1)); err != nil {
			return err
		}
		after, err := txn.Commit(ctx)
		if err == nil {
			_, err = after.DeleteOrphanFiles(ctx, table.WithFilesOlderThan(age))
			return err
		}
		if attempt == attempts || !p.lost(ctx, now, err) && !store.IsTemporary(err) {
			return err
		}
	}
}
