package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/glue" // registers it
	"github.com/apache/iceberg-go/catalog/rest"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	"github.com/uptrace/bun/driver/sqliteshim"

	"parsimon/pipeline/cmd/publishing"
)

// Namespace is the namespace of all tables in a catalog, and the name of the catalog in a SQL database.
const Namespace = "parsimon"

// Identify returns the name of a table in a catalog.
func Identify(name string) table.Identifier { return table.Identifier{Namespace, name} }

// OpenCatalog opens the catalog of a store. The library reads credentials and other properties of a REST
// catalog from catalog "parsimon" of ~/.iceberg-go.yaml. PostgreSQL's password and Glue's credentials come
// from the environment, as for psql and the AWS tools.
func OpenCatalog(ctx context.Context, s *Store, name string) (Catalog, error) {
	if name == "none" {
		return NewPaths(s), nil
	}
	props, err := catalogProperties(name)
	if err != nil {
		return nil, err
	}
	maps.Copy(props, s.Props)
	c, err := loadCatalog(ctx, props)
	if err != nil {
		return nil, fmt.Errorf("catalog %s: %w", name, err)
	}
	return c, nil
}

// catalogProperties returns the properties of the Iceberg library for a catalog.
func catalogProperties(name string) (iceberg.Properties, error) {
	kind, at, _ := strings.Cut(name, ":")
	switch {
	case kind == "sqlite" && at != "":
		return iceberg.Properties{
			"type": "sql", "uri": "file:" + at + "?_pragma=busy_timeout(30000)&_busy_timeout=30000",
			icesql.DriverKey: sqliteshim.ShimName, icesql.DialectKey: string(icesql.SQLite), createTables: "true",
		}, nil
	case kind == "postgres" || kind == "postgresql":
		u, err := url.Parse(name)
		if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
			return nil, errors.New("catalog of PostgreSQL: want postgres://USER@HOST/DATABASE")
		}
		_, found := u.User.Password()
		if found || u.Query().Has("password") {
			return nil, errors.New("catalog of PostgreSQL: the password comes from PGPASSWORD or ~/.pgpass")
		}
		return iceberg.Properties{
			"type": "sql", "uri": name,
			icesql.DriverKey: "pgx", icesql.DialectKey: string(icesql.Postgres), createTables: "true",
		}, nil
	case kind == "rest" && at != "":
		return iceberg.Properties{"type": "rest", "uri": at}, nil
	case name == "glue":
		return iceberg.Properties{"type": "glue"}, nil
	}
	return nil, fmt.Errorf("catalog %q: want %s", name, publishing.Catalogs)
}

// createTables is the property of a SQL catalog that creates its tables.
const createTables = "init_catalog_tables"

// loadAttempts is the number of times that a catalog is opened. If another publisher creates the namespace or
// the database's tables at once, some databases fail instead of waiting.
const loadAttempts = 5

// loadCatalog loads a catalog, and creates its namespace if it is missing.
func loadCatalog(ctx context.Context, props iceberg.Properties) (catalog.Catalog, error) {
	for attempt := 1; ; attempt++ {
		c, err := catalog.Load(ctx, Namespace, props)
		if err == nil {
			err = createNamespace(ctx, c)
		}
		if err == nil {
			return c, nil
		}
		if attempt == loadAttempts || attempt == 2 && !IsTemporary(err) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(attempt) * 100 * time.Millisecond):
		}
	}
}

// createNamespace creates the namespace of a catalog if it is missing. If it exists, createNamespace only
// reads: a publisher may lack the right to create namespaces.
func createNamespace(ctx context.Context, c catalog.Catalog) error {
	name := table.Identifier{Namespace}
	exists, err := c.CheckNamespaceExists(ctx, name)
	if err != nil || exists {
		return err
	}
	err = c.CreateNamespace(ctx, name, nil)
	if errors.Is(err, catalog.ErrNamespaceAlreadyExists) { // another publisher was faster
		return nil
	}
	return err
}

// IsTemporary reports whether a request to a catalog failed because the service was unavailable or its answer
// was lost. The catalog may have done what was asked, so read it before the request is repeated.
func IsTemporary(err error) bool {
	if errors.Is(err, rest.ErrServiceUnavailable) || errors.Is(err, rest.ErrCommitStateUnknown) {
		return true
	}
	var request *url.Error
	return errors.As(err, &request) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}
