package ingest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A small compressed file with large content takes little memory. Lines are read one by one, and no more than
// the limit of a line that is too long is kept.
func TestCompressedBombs(t *testing.T) {
	const size = 256 << 20
	for name, c := range map[string]struct {
		format, head, text string
		rows               int64
		want               string // reason of the row, or error
	}{
		"a line of zeros":  {"vpc", vpcNames, "\x00", 1, "broken line"},
		"a line of digits": {"vpc", vpcNames, "1", 1, "broken line: longer than 1 MiB"},
		"a line of spaces": {"vpc", vpcNames, " ", 1, "broken line: longer than 1 MiB"},
		"blank lines":      {"vpc", vpcNames, strings.Repeat(" ", 4095) + "\n", 0, ""},
		"an element of a list": {"jsonl", `["`, "1", -1,
			"element 1 of the JSON list, byte 1: longer than 16 MiB"},
		"spaces between brackets": {"jsonl", `[`, " ", -1, "cut short after element 0: longer than 16 MiB"},
	} {
		if testing.Short() && name != "a line of digits" && name != "an element of a list" {
			t.Log(name, "is left out with -short")
			continue
		}
		m, err := FormatMapping(c.format)
		if err != nil {
			t.Fatal(err)
		}
		const part = 8 << 20
		member := zipped(t, strings.Repeat(c.text, part/len(c.text)))
		bomb := zipped(t, c.head)
		for range size / part { // a file may have several members
			bomb = append(bomb, member...)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "bomb.gz")
		out := filepath.Join(dir, "lines.parquet")
		if err := os.WriteFile(file, bomb, 0o644); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := readLines(t.Context(), fileWork{m: m, file: file}, out)
		runtime.ReadMemStats(&after)
		rows := text.rows
		took := after.TotalAlloc - before.TotalAlloc
		if took > size/2 {
			t.Errorf("%s: %d MiB of memory for a file of %d MiB", name, took>>20, size>>20)
		}
		switch {
		case c.rows < 0:
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			}
			continue
		case err != nil || rows != c.rows:
			t.Errorf("%s: %d rows, %v", name, rows, err)
			continue
		case rows == 0:
			continue
		}
		got := askParquet(t, "SELECT broken || ' ' || (strlen(line) <= 4096) FROM read_parquet(%s)", out)
		if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, " true") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

const vpcNames = "version account-id srcaddr dstaddr bytes start end\n"
