package main

import (
	"encoding/json"
	"testing"
)

// These commands are a contract for scripts: a flow file with a column after, as CSV and as Parquet with a
// list, and a scenario with jobs.
func TestFlowsThatWait(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{
		"net.yaml": "graph: {hosts: [a, b, c], switches: [s], bandwidth: 10Gbps, delay: 1us, cables: [\"a:s\", " +
			"\"b:s\", \"c:s\"]}\n",
		"f.csv":   "flow_id,src,dst,size_bytes,start_ns,after,delay_ns,service\n1,a,b,1000,5,,,x\n2,a,a,0,0,1,1000,x\n3,b,c,1000,0,1 2,10,x\n",
		"c.csv":   "flow_id,src,dst,size_bytes,start_ns,after,delay_ns,service\n1,a,b,1000,5,,,x\n2,a,a,0,0,1,1000,steps\n",
		"bad.csv": "flow_id,src,dst,size_bytes,start_ns,after\n1,a,b,1000,5,2\n2,a,b,1000,5,1\n",
		"jobs.yaml": `topology: {file: net.yaml}
workload:
  jobs:
    - {name: x, hosts: [a, b], iterations: 2, steps: [{collective: all-reduce, size: 9KB}, {compute: 1us}]}
    - {name: y, hosts: [c, b], steps: [{collective: broadcast, size: 9KB}]}
`,
	})
	var starts []string
	for _, file := range []string{"f.csv", "f.parquet"} {
		if file == "f.parquet" {
			writeFiles(t, map[string]string{
				file: must(t, "query", "--lake", "f.csv-lake", "--format", "parquet", "--sql", "SELECT 1 AS flow_id, "+
					"'a' AS src, 'b' AS dst, 1000 AS size_bytes, 5 AS start_ns, NULL::UBIGINT[] AS after, NULL AS "+
					"delay_ns, 'x' AS service UNION ALL SELECT 2, 'a', 'a', 0, 0, [1]::UBIGINT[], 1000, 'x' UNION ALL "+
					"SELECT 3, 'b', 'c', 1000, 0, [1, 2]::UBIGINT[], 10, 'x'")})
		}
		must(t, "run", "--topology", "net.yaml", "--flows", file, "--lake", file+"-lake", "--estimator", "exact")
		starts = append(starts, must(t, "query", "--lake", file+"-lake", "--format", "csv", "--sql",
			"SELECT flow_id, start_ns, fct_ns FROM exact_fcts ORDER BY flow_id"))
	}
	// 1,048 B twice at 10 Gbps and 2 us of cable: 3,677 ns
	want := "flow_id,start_ns,fct_ns\n1,5,3677\n2,4682,0\n3,4692,3677\n"
	if starts[0] != want || starts[1] != want {
		t.Errorf("starts by CSV\n%sand by Parquet\n%swant\n%s", starts[0], starts[1], want)
	}
	jobs := func(args ...string) (all []struct {
		Name         string
		Iterations   []int64
		CompletionNS int64 `json:"completion_ns"`
	}) {
		var r struct{ Jobs any }
		r.Jobs = &all
		if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), &r); err != nil {
			t.Fatal(err)
		}
		return all
	}
	file := jobs("run", "--topology", "net.yaml", "--flows", "f.csv", "--lake", "lake", "--set", "mtu=500")
	if len(file) != 1 || file[0].Name != "x" || len(file[0].Iterations) != 1 ||
		file[0].CompletionNS != file[0].Iterations[0] {
		t.Errorf("jobs of a flow file: %+v", file)
	}
	both := jobs("run", "jobs.yaml", "--lake", "lake")
	alone := jobs("run", "jobs.yaml", "--lake", "lake", "--set", "workload.only=[x]")
	if len(both) != 2 || len(both[0].Iterations) != 2 || len(alone) != 1 ||
		alone[0].CompletionNS >= both[0].CompletionNS {
		t.Errorf("both %+v, alone %+v", both, alone)
	}
	contains(t, must(t, "run", "jobs.yaml", "--lake", "lake", "--estimator", "flow", "--starts-from", "exact"),
		"starts from exact")
	mustFail(t,
		failure{exitFailed, `no flows have service "steps"; there are x`,
			[]string{"run", "--topology", "net.yaml", "--flows", "c.csv", "--lake", "lake",
				"--fail-if", "service=steps p99_slowdown > 1"}},
		failure{exitUsage, "--starts-from exact", []string{"run", "jobs.yaml", "--lake", "lake",
			"--estimator", "flow"}},
		failure{exitUsage, `no job is named "z"`,
			[]string{"run", "jobs.yaml", "--lake", "lake", "--set", "workload.only=[z]"}},
		failure{exitUsage, "--set transport.payload", []string{"run", "jobs.yaml", "--lake", "lake",
			"--set", "mtu=70000"}},
		failure{exitUsage, "want exact", []string{"run", "jobs.yaml", "--lake", "lake", "--starts-from", "flow"}},
		failure{exitFailed, "bad.csv: column after: 2 flows wait for each other: 1 after 2 after 1",
			[]string{"run", "--topology", "net.yaml", "--flows", "bad.csv", "--lake", "lake"}},
	)
}
