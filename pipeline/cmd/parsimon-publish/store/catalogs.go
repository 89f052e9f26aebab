package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/rest" // registers it
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	"github.com/uptrace/bun/driver/sqliteshim"
)

// Namespace is the namespace of all tables in a catalog.
const Namespace = "parsimon"

// Identify returns the name of a table in a catalog.
func Identify(name string) table.Identifier { return table.Identifier{Namespace, name} }

// Kinds lists the forms of a catalog that OpenCatalog accepts.
const Kinds = "none, sqlite:FILE or rest:URL"

// OpenCatalog opens the catalog of a store. The library reads credentials and other properties of a REST
// catalog from catalog "parsimon" of ~/.iceberg-go.yaml.
func OpenCatalog(ctx context.Context, s *Store, name string) (Catalog, error) {
	if name == "none" {
		return NewPaths(s), nil
	}
	kind, at, _ := strings.Cut(name, ":")
	props := iceberg.Properties{}
	maps.Copy(props, s.Props)
	switch {
	case kind == "sqlite" && at != "":
		props["type"] = "sql"
		props["uri"] = "file:" + at + "?_pragma=busy_timeout(30000)&_busy_timeout=30000"
		props[icesql.DriverKey] = sqliteshim.ShimName
		props[icesql.DialectKey] = string(icesql.SQLite)
		props["init_catalog_tables"] = "true"
	case kind == "rest" && at != "":
		props["type"] = "rest"
		props["uri"] = at
	default:
		return nil, fmt.Errorf("catalog %q: want %s", name, Kinds)
	}
	c, err := catalog.Load(ctx, Namespace, props)
	if err != nil {
		return nil, fmt.Errorf("catalog %s: %w", name, err)
	}
	err = c.CreateNamespace(ctx, table.Identifier{Namespace}, nil)
	if err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return nil, fmt.Errorf("catalog %s: %w", name, err)
	}
	return c, nil
}
