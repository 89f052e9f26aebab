package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// These names could be in a trace, and would break out of a careless page.
const (
	hostileScript = `</script><script>window.hacked = 1</script>`
	hostileImage  = `"><img src=x onerror="window.hacked = 2">`
	hostileText   = "a'b\"c`${window.hacked=3}`\u2028\u2029<!-- {{.}} \\u003c &lt;"
)

// reportLake is a lake with a scenario of three services, another with the same network and a failed cable,
// and a network that is not a Clos network. Services and networks have hostile names.
func reportLake(t *testing.T) (lake string) {
	t.Helper()
	lake = filepath.Join(t.TempDir(), "lake")
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\u2028", `\L`, "\u2029", `\P`).Replace(s) + `"`
	}
	text := fmt.Sprintf(`name: report
topology:
  clos: {pods: 2, racks_per_pod: 4, hosts_per_rack: 4, planes: 2, spines_per_plane: 2, host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 60%%
  flows_count: 9000
  services:
    - {name: %s, vnet: blue, sizes: webserver, sigma: 1, share: 3}
    - {name: %s, vnet: %s, sizes: hadoop, sigma: 2}
    - {name: %s, vnet: %s, sizes: cachefollower, sigma: 1}
`, quote(hostileScript), quote(hostileImage), quote(hostileImage), quote(hostileText), quote(hostileText))
	graph := `name: graph
topology:
  graph: {hosts: [a, b, c, d, e], switches: [s, t, u], bandwidth: 10Gbps, delay: 1us, cables: ["a:s", "b:s", "c:t", "d:t", "e:u", "s:t", "t:u", "s:u"]}
workload: {max_load: 40%, flows_count: 3000, services: [{name: only, sizes: webserver}]}
`
	for name, content := range map[string]string{"report": text, "graph": graph} {
		path := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if name == "graph" {
			must(t, "sweep", path, "--set", "load.max=20%,40%", "--set", "transport.kind=dctcp,hpcc", "--exact",
				"--lake", lake, "--passes", "2", "--quiet")
			continue
		}
		must(t, "run", path, "--lake", lake, "--passes", "2", "--quiet")
	}
	must(t, "what-if", "report", "--fail", "pod0-fabric0:plane0-spine0", "--name", "failed", "--lake", lake,
		"--passes", "2", "--quiet")
	must(t, "validate", "--scenario", "report", "--passes", "2", "--truth", "exact", "--lake", lake, "--quiet")
	must(t, "sweep", "report", "--fail", "each:fabric-spine", "--passes", "2", "--lake", lake, "--quiet")
	return lake
}

// sampledLake is a lake with a scenario that was estimated from windows of time only, in several rounds.
// Services and networks have hostile names.
func sampledLake(t *testing.T) (lake string) {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 1))
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	rows := [][]string{{"src", "dst", "size_bytes", "start_ns", "service", "vnet"}}
	for range 30_000 {
		src := random.IntN(32)
		rows = append(rows, []string{fmt.Sprint(src), fmt.Sprint((src + 1 + random.IntN(31)) % 32),
			fmt.Sprint(1000 + random.IntN(15_000)), fmt.Sprint(random.Int64N(600e6)),
			[]string{hostileScript, hostileImage, "etl"}[random.IntN(3)],
			[]string{"blue", hostileText}[random.IntN(2)]})
	}
	path, lake := filepath.Join(dir, "sampled.csv"), filepath.Join(dir, "lake")
	if err := errors.Join(w.WriteAll(rows), os.WriteFile(path, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	must(t, "run", "--topology", "small-2to1", "--flows", path, "--lake", lake, "--within", "8%",
		"--of", "p99", "--by", "service", "--quiet")
	return lake
}

// sampledCharts are those of the report of an estimate from windows.
var sampledCharts = []string{"sampled_percentiles"}

// Every chart of every kind of report is drawn without an error or a request, on a screen and on a phone.
// Filters, zoom, tables and the dark page work, and no name of a trace becomes code.
func TestReportInBrowser(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") == "" {
		t.Skip("every kind of report on every screen takes minutes: set PARSIMON_LONG; TestReportPage draws one")
	}
	lake := reportLake(t)
	dir := t.TempDir()
	file := func(name string, args ...string) string {
		path := filepath.Join(dir, name+".html")
		must(t, append([]string{"report", "--lake", lake, "--output", path, "--quiet"}, args...)...)
		return path
	}
	plain := file("report", "report")
	compared := file("compare", "failed", "--compare", "report")
	graph := file("graph", "graph, load.max=40%, transport.kind=hpcc")

	sampled := filepath.Join(dir, "sampled.html")
	must(t, "report", "sampled", "--lake", sampledLake(t), "--output", sampled, "--quiet")

	t.Run("charts", func(t *testing.T) {
		for name, want := range map[string][]string{
			plain: {"slowdown_cdf", "slowdown_vs_size_by_group", "percentiles_by_group", "slowdown_and_load_over_time",
				"tail_by_tier", "link_load_and_tail", "worst_failures"},
			compared: {"what_changed", "what_changed_links", "slowdown_cdf", "tail_by_tier", "link_load_and_tail"},
			graph: {"slowdown_cdf", "percentiles_by_group", "tail_by_tier", "parameter_sweep",
				"sweep_errors"},
			sampled: sampledCharts,
		} {
			base := strings.TrimSuffix(filepath.Base(name), ".html")
			for _, size := range []struct {
				name          string
				width, height int64
				dark          bool
			}{{"desktop", 1280, 900, false}, {"phone", 375, 700, true}} {
				b := openTab(t, name, size.width, size.height, size.dark)
				checkCharts(t, b, want)
				over := eval[int](t, b, "document.documentElement.scrollWidth - innerWidth")
				if over > 0 {
					t.Errorf("%s, %s: the page is %d px too wide", base, size.name, over)
				}
				b.picture(t, "report-"+base+"-"+size.name)
				b.quiet(t)
				t.Logf("%s, %s: drawn in %.0f ms", base, size.name, eval[float64](t, b, "parsimon.milliseconds"))
			}
		}
	})
	t.Run("hostile names", func(t *testing.T) { checkHostile(t, plain, "percentiles_by_group") })
	t.Run("hostile names of windows", func(t *testing.T) { checkHostile(t, sampled, "sampled_percentiles") })
	t.Run("filters", func(t *testing.T) { checkFilters(t, openTab(t, plain, 1280, 900, false)) })
	t.Run("tables", func(t *testing.T) { checkTables(t, openTab(t, plain, 1280, 900, false)) })
	t.Run("zoom and dark", func(t *testing.T) { checkZoom(t, openTab(t, plain, 1280, 900, false)) })
	t.Run("shares of tiers", func(t *testing.T) {
		b := openTab(t, plain, 1280, 900, false)
		// The chart has every tier of the network for all flows and for each service, and their shares sum to
		// 1.
		got := eval[[]float64](t, b, `(() => {
			const rows = parsimon.rows('tail_by_tier'), sums = new Map(), tiers = new Set(rows.map(r => r.tier));
			rows.forEach(r => { const s = sums.get(r.service) || [0, 0]; s[0] += r.share; s[1]++; sums.set(r.service, s); });
			return [tiers.size, sums.size, ...[...sums.values()].flat()];
		})()`)
		if len(got) != 2+2*4 || got[0] != 6 || got[1] != 4 {
			t.Fatalf("got %v, want 6 tiers of 4 groups", got)
		}
		for i := 2; i < len(got); i += 2 {
			if got[i] < 1-1e-5 || got[i] > 1+1e-5 || got[i+1] != 6 {
				t.Errorf("shares sum to %v over %v tiers", got[i], got[i+1])
			}
		}
	})
}

// The report of a small scenario is drawn without an error and without a request.
func TestReportPage(t *testing.T) {
	long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tiny.html")
	must(t, "report", "tiny", "--lake", tinyLake(t).lake, "--output", path, "--quiet")
	b := openTab(t, path, 1280, 900, false)
	checkCharts(t, b, []string{"slowdown_cdf", "slowdown_vs_size_by_group", "percentiles_by_group",
		"tail_by_tier"})
	b.quiet(t)
}

// The report of an estimate from windows has a remark beside every number. It has its charts and no others,
// is the same when it is written again, and lets no name of a trace become code.
func TestReportSampled(t *testing.T) {
	long(t)
	t.Parallel()
	lake := sampledLake(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "sampled.html")
	must(t, "report", "sampled", "--lake", lake, "--output", path, "--quiet")
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "report", "sampled", "--lake", lake, "--output", path, "--quiet")
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same report differs: %v", err)
	}
	mustFail(t, failure{exitFailed, "parsimon compare --within answers what changed",
		[]string{"report", "sampled", "--compare", "sampled", "--lake", lake, "--output", path}})
	b := openTab(t, path, 375, 700, true)
	checkCharts(t, b, sampledCharts)
	n := eval[int](t, b, `document.querySelectorAll('figure[data-chart]').length`)
	if n != len(sampledCharts) {
		t.Errorf("%d charts, want %d", n, len(sampledCharts))
	}
	said := eval[[]int](t, b,
		`['.figure .note', 'figcaption .badge'].map(s => [...document.querySelectorAll(s)].filter(x => /sampled, \d+ windows, [0-9.]+% of flows/.test(x.textContent)).length)`)
	if said[0] != 3 || said[1] != len(sampledCharts) {
		t.Errorf("%d percentiles and %d charts say what they were estimated from, want 3 and %d", said[0], said[1],
			len(sampledCharts))
	}
	text := eval[string](t, b, `document.querySelector('main').textContent`)
	contains(t, text, "95% interval", "Charts of links and of time")
	over := eval[int](t, b, "document.documentElement.scrollWidth - innerWidth")
	if over > 0 {
		t.Errorf("the page is %d px too wide", over)
	}
	b.quiet(t)
	checkHostile(t, path, "sampled_percentiles")
}

// checkCharts fails unless each of the charts is there and has marks, and no other chart is empty.
func checkCharts(t *testing.T, b *tab, want []string) {
	t.Helper()
	const marks = `'.mark-rect.role-mark path, .mark-line.role-mark path, .mark-symbol.role-mark path, .mark-area.role-mark path, .mark-rule.role-mark line, .mark-text.role-mark text'`
	got := eval[map[string]int](
		t, b, `Object.fromEntries([...document.querySelectorAll('figure[data-chart]')].map(f => [f.dataset.chart, f.querySelectorAll(`+marks+`).length]))`)
	for _, name := range want {
		if _, there := got[name]; !there {
			t.Errorf("no chart %s", name)
		}
	}
	for name, n := range got {
		if n == 0 {
			t.Errorf("chart %s has no marks", name)
		}
	}
}

// checkHostile checks a page with hostile names of services, which a chart shows.
func checkHostile(t *testing.T, path, chart string) {
	t.Helper()
	b := openTab(t, path, 1280, 900, false)
	names := eval[[]string](t, b,
		`[...document.querySelectorAll('#filter-service option')].map(o => o.dataset.name || '')`)
	for _, want := range []string{hostileScript, hostileImage} {
		if !strings.Contains(strings.Join(names, "\n"), want) {
			t.Errorf("service %q is not to be chosen; there are %q", want, names)
		}
	}
	n := eval[int](t, b, `[...document.querySelectorAll('svg text')].filter(x => x.textContent.includes('</script>')).length`)
	if n == 0 {
		t.Error("no chart shows the name of the hostile service")
	}
	// A tooltip is made of the row's texts.
	at := eval[[]float64](t, b, `(() => {
		const marks = document.querySelectorAll('figure[data-chart="`+chart+`"] .mark-symbol.role-mark path'), mark = marks[marks.length - 1];
		mark.scrollIntoView({block: 'center', behavior: 'instant'});
		const box = mark.getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})()`)
	b.do(t, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0]-1, at[1]),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	b.wait(t, "a tooltip", `document.querySelector('#vg-tooltip-element.visible')`)
	if eval[bool](t, b, `'hacked' in window || document.querySelector('#vg-tooltip-element img, #vg-tooltip-element script') !== null`) {
		t.Error("a name of the trace became part of a tooltip")
	}
	eval[bool](t, b, `document.querySelectorAll('details').forEach(d => { d.open = true; }) || true`)
	b.wait(t, "the tables", `document.querySelectorAll('figure table').length > 0`)
	if eval[bool](t, b, `'hacked' in window || document.querySelector('img') !== null`) {
		t.Error("a name of the trace became part of the page")
	}
	b.quiet(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1_500_000 {
		t.Errorf("the report has %d bytes", len(text))
	}
	for _, bad := range []string{hostileScript, hostileImage} {
		if strings.Contains(string(text), bad) {
			t.Errorf("the page has %q as it is", bad)
		}
	}
	_, data, found := strings.Cut(string(text), `id="report-data">`)
	data, _, _ = strings.Cut(data, "</script>")
	if !found || len(data) < 1000 || strings.ContainsAny(data, "<>&\u2028\u2029") {
		t.Errorf("the data of the page, %d bytes, have characters that are not escaped", len(data))
	}
	// The addresses in the file are names of XML namespaces and of specifications. The page requests none of
	// them.
	if found := regexp.MustCompile(`(?i)<(link|script|img|iframe)[^>]*(src|href)="?(https?:)?//[^>]*>`).Find(
		text); found != nil {
		t.Errorf("the page names another file: %s", found)
	}
}

func checkFilters(t *testing.T, b *tab) {
	points := func() string {
		return eval[string](t, b,
			`['slowdown_cdf', 'slowdown_vs_size_by_group', 'slowdown_and_load_over_time', 'percentiles_by_group'].map(c =>
			[...document.querySelectorAll('figure[data-chart="' + c + '"] .role-mark path')].map(p => p.getAttribute('d')).join('').length).join(' ')`)
	}
	choose := func(id string, index int) {
		eval[bool](t, b, fmt.Sprintf(
			`(() => { const s = document.getElementById(%q); s.selectedIndex = %d; s.dispatchEvent(new Event('change', {bubbles: true})); return true; })()`, id, index))
	}
	before := points()
	choose("filter-service", 1)
	b.wait(t, "the filter", `parsimon.drawn.get('slowdown_cdf').view.signal('service') !== null`)
	b.wait(t, "the charts", `parsimon.idle()`)
	filtered := points()
	if filtered == before {
		t.Error("the filter by service changes no chart")
	}
	names := eval[[]string](t, b,
		`[...new Set(parsimon.drawn.get('slowdown_cdf').view.data('data_0').map(r => r.service))]`)
	if len(names) != 1 || names[0] == "" {
		t.Errorf("the curves are of services %q", names)
	}
	choose("filter-vnet", 1) // a network that the service is not in, or is
	b.wait(t, "the charts", `parsimon.idle() && parsimon.drawn.get('slowdown_cdf').view.signal('vnet') !== null`)
	choose("filter-service", 2)
	b.wait(t, "the charts", `parsimon.idle()`)
	n := eval[int](t, b, `[...document.querySelectorAll('figure .empty')].filter(p => !p.hidden).length`)
	if n == 0 {
		t.Error("a service outside its network: no chart says that there are no such flows")
	}
	eval[bool](t, b, `document.getElementById('filter').reset() || true`)
	b.wait(t, "the charts", `parsimon.idle() && parsimon.drawn.get('slowdown_cdf').view.signal('service') === null`)
	after := points()
	if after != before {
		t.Errorf("after a reset the charts differ: %s, were %s", after, before)
	}
	b.quiet(t)
}

func checkTables(t *testing.T, b *tab) {
	text := eval[string](t, b, `parsimon.csv('percentiles_by_group')`)
	lines := strings.Split(strings.TrimSpace(text), "\r\n")
	if lines[0] != "service,vnet,flows,quantile,slowdown,lo,hi" || len(lines) < 1+4*7 {
		t.Errorf("the CSV has %d lines: %s", len(lines), lines[0])
	}
	// Every chart has a table and its SQL.
	got := eval[[]int](t, b, `[document.querySelectorAll('figure').length, document.querySelectorAll('figure details.table').length, document.querySelectorAll('figure details.sql').length]`)
	if got[1] != got[0] || got[2] != got[0] {
		t.Errorf("%d charts, %d tables, %d with SQL", got[0], got[1], got[2])
	}
	eval[bool](t, b, `document.querySelectorAll('details.table').forEach(d => { d.open = true; }) || true`)
	b.wait(t, "the tables", `[...document.querySelectorAll('details.table')].every(d => d.querySelectorAll('tbody tr').length > 0)`)
	b.quiet(t)
}

func checkZoom(t *testing.T, b *tab) {
	domain := `JSON.stringify(parsimon.drawn.get('slowdown_vs_size_by_group').view.scale('x').domain())`
	before := eval[string](t, b, domain)
	eval[bool](t, b, `(document.querySelector('figure[data-chart="slowdown_vs_size_by_group"]').scrollIntoView({behavior: 'instant'}), true)`)
	eval[bool](t, b, `document.querySelector('figure[data-chart="slowdown_vs_size_by_group"] [data-zoom=in]').click() || true`)
	b.wait(t, "the zoom", domain+" !== '"+before+"'")
	eval[bool](t, b, `document.querySelector('figure[data-chart="slowdown_vs_size_by_group"] .view').dispatchEvent(new KeyboardEvent('keydown', {key: '0', bubbles: true})) || true`)
	b.wait(t, "the reset", domain+" === '"+before+"'")
	const colour = `getComputedStyle(document.body).backgroundColor + document.querySelector('figure[data-chart=slowdown_cdf] .role-axis-label text').getAttribute('fill')`
	light := eval[string](t, b, colour)
	eval[bool](t, b, `document.getElementById('theme').click() || true`)
	b.wait(t, "the dark page", `parsimon.ready && (`+colour+`) !== '`+light+`'`)
	b.quiet(t)
}

// The command's contract for scripts.
func TestReportCommand(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	lake := tinyLake(t).lake
	out := filepath.Join(dir, "sub.html")
	got := must(t, "report", "tiny", "--lake", lake, "--output", out, "--quiet")
	if !strings.HasPrefix(got, out+": ") {
		t.Errorf("said %q", got)
	}
	first, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "report", "tiny@flow-2", "--lake", lake, "--output", filepath.Join(dir, "variant.html"), "--quiet")
	must(t, "report", "tiny", "--lake", lake, "--output", out, "--quiet")
	if second, err := os.ReadFile(out); err != nil || string(first) != string(second) {
		t.Errorf("the same report differs: %v", err)
	}
	mustFail(t, []failure{
		{exitFailed, `no scenario "other" in `,
			[]string{"report", "other", "--lake", lake, "--output", out}},
		{exitFailed, "has no estimate \"flow-9\"",
			[]string{"report", "tiny@flow-9", "--lake", lake, "--output", out}},
		{exitFailed, "compared with itself",
			[]string{"report", "tiny", "--compare", "tiny", "--lake", lake, "--output", out}},
		{exitFailed, "no such",
			[]string{"report", "tiny", "--lake", lake, "--output", filepath.Join(dir, "no", "such.html")}},
		{exitUsage, "--lake is required", []string{"report", "tiny"}},
		{exitUsage, "an argument is missing", []string{"report", "--lake", lake}},
	}...)
	if after, err := os.ReadFile(out); err != nil || string(after) != string(first) {
		t.Errorf("a failed report touched the file: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A report spills to the disk of the lake, as a query does: TMPDIR may be small, or missing.
func TestReportNeedsNoTMPDIR(t *testing.T) {
	lake := tinyLake(t).lake
	out := filepath.Join(t.TempDir(), "report.html")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	must(t, "report", "tiny", "--lake", lake, "--output", out, "--quiet")
	if _, err := os.Lstat(filepath.Join(lake, "_tmp", "queries")); !os.IsNotExist(err) {
		t.Errorf("the report leaves its temporary directory behind: %v", err)
	}
}
