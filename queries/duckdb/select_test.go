package duckdb

import (
	"strings"
	"testing"
)

func TestCheckSelect(t *testing.T) {
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, text := range []string{
		"SELECT a + 1 AS b FROM source WHERE c = 'x; -- y'",
		"WITH s AS (SELECT * FROM Source) SELECT x FROM s, unnest([1, 2]) AS u(x)",
		"SELECT * FROM source UNION ALL SELECT * FROM source -- twice",
	} {
		if err := CheckSelect(t.Context(), conn, text, "source"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"SELECT (SELECT content FROM read_text('/etc/hostname')) FROM source":      `"read_text" is not allowed`,
		"SELECT * FROM source, enable_logging(storage := 'file')":                  `"enable_logging" is not allowed`,
		"SELECT * FROM '/etc/passwd.csv'":                                          "/etc/passwd.csv",
		"SELECT * FROM other":                                                      `"other" is not allowed`,
		"SELECT * FROM main.source":                                                `"source" is not allowed`,
		"SELECT * FROM source WHERE EXISTS (FROM glob('*'))":                       `"glob" is not allowed`,
		"WITH s AS (FROM read_csv('/etc/passwd')) SELECT * FROM s":                 `"read_csv" is not allowed`,
		"SELECT json_execute_serialized_sql('{}') FROM source":                     "is not allowed",
		"SELECT 1 FROM source; COPY (SELECT 1) TO '/tmp/x.csv'":                    "",
		"SELECT 1) FROM source UNION ALL (SELECT content FROM read_text('/etc/x')": "syntax error",
		"COPY (SELECT 1) TO '/tmp/x.csv'":                                          "",
		"SELECT 1\x00 FROM source":                                                 "zero byte",
		"DESCRIBE source":                                                          "not allowed",
	} {
		if err := CheckSelect(t.Context(), conn, text, "source"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
