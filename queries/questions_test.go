package queries

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema/daily"
)

const percentiles = "p50_slowdown,p90_slowdown,p99_slowdown,p999_slowdown,max_slowdown"

// trust are the columns of questions with confidence intervals.
const trust = percentiles + bounds

// trustAndFCT are those with FCTs beside the slowdowns.
const trustAndFCT = percentiles + ",p50_fct_ms,p99_fct_ms" + bounds

// worstOfService are the columns of question worst_of_service.
const worstOfService = "scenario,variant,service,place,src_rack,dst_rack,from_ns,to_ns," +
	"flows,p50_slowdown,p99_slowdown,max_slowdown"

// flowsAtLink, slowestFlows and p99Links are the columns of these questions.
const (
	flowsAtLink = "scenario,variant,link_id,place,flow_id,service,vnet,src,dst,src_name,dst_name," +
		"size_bytes,start_ns,fct_ns,slowdown,link_delay_ns"
	slowestFlows = "scenario,variant,place,flow_id,service,vnet,src,dst,src_name,dst_name," +
		"size_bytes,start_ns,fct_ns,ideal_ns,slowdown,link_id,link,link_delay_ns,note"
	p99Links = "scenario,variant,place,link_id,link,src_node,dst_node,tier," +
		"load,link_share,service,tail_flows,delay_ns,service_share,note"
)

// waitsAtHost is the note of links of hosts in simulations of the whole network.
const waitsAtHost = `"senders also wait here because of congestion at later links (windows, losses, timeouts)"`

const bounds = ",p50_lo,p50_hi,p90_lo,p90_hi,p99_lo,p99_hi,p999_lo,p999_hi,warning"

type knownAnswer struct {
	query  string
	params map[string]string
	want   string
}

// knownAnswers are computed by hand from the known lake. Percentile q of the values v0 … vk is interpolated
// at index q·k: the p99 of 1, 2, 3 is 2 + 0.98.
var knownAnswers = []knownAnswer{
	{"slowdown_by_size", nil, `scenario,variant,size_bin,flows,` + trustAndFCT + `
aaa,own,<10 KB,3,2,2.8,2.98,2.998,3,0.0002,0.000298,,,,,,,,,
aaa,own,10-100 KB,1,4,4,4,4,4,0.0004,0.0004,,,,,,,,,
aaa,own,100 KB-1 MB,2,5.5,5.9,5.99,5.999,6,0.00055,0.000599,,,,,,,,,
aaa,own,>1 MB,1,10,10,10,10,10,0.001,0.001,,,,,,,,,
aaa,own,all,7,4,7.6,9.76,9.976,10,0.0004,0.000976,3,5,7,9,8,10,9,11,"p99: short; p99.9: few flows (3); see warnings: fan-in, loaded twice"`},
	{"slowdown_by_service", nil, `scenario,variant,service,flows,` + trustAndFCT + `
aaa,own,db,3,5,5.8,5.98,5.998,6,0.0005,0.000598,,,,,,,,,
aaa,own,web,4,2.5,7.9,9.79,9.979,10,0.00025,0.000979,2,3,,,,,,,"see warnings: fan-in, loaded twice"`},
	// Flow 13, whose DSCP is unknown, is in the class of DSCP 0. Flows 14 and 15 are in the class of their
	// virtual network, the
	// others in the class of service web.
	{"slowdown_by_class", nil, `scenario,variant,scenario_name,queue,class,flows,` + percentiles +
		`,marks,drops,paused_ns
aaa,own,known,3,rpc,4,2.5,7.9,9.79,9.979,10,6,3,30
aaa,own,known,5,red,2,5.5,5.9,5.99,5.999,6,,,
aaa,own,known,6,ef,1,4,4,4,4,4,,,`},
	// Flow 16 has no truth.
	{"error_by_service", nil,
		`scenario,scenario_name,variant,truth,service,flows,true_p50,true_p90,true_p99,true_p999,p50_error,p90_error,p99_error,p999_error
aaa,known,own,exact,db,3,5,5,5,5,0.0,0.15999999999999992,0.19600000000000017,0.1996
aaa,known,own,exact,web,3,2,3.6,3.96,3.996,0.0,-0.22222222222222232,-0.24747474747474751,-0.24974974974974973
aaa,known,own,exact,all,6,4,5,5,5,-0.125,0.10000000000000009,0.18999999999999995,0.19900000000000007`},
	{"slowdown_by_size", map[string]string{"service": "db"}, `scenario,variant,size_bin,flows,` + trustAndFCT + `
aaa,own,10-100 KB,1,4,4,4,4,4,0.0004,0.0004,,,,,,,,,
aaa,own,100 KB-1 MB,2,5.5,5.9,5.99,5.999,6,0.00055,0.000599,,,,,,,,,
aaa,own,all,3,5,5.8,5.98,5.998,6,0.0005,0.000598,,,,,,,,,`},
	{"slowdown_by_size", map[string]string{"service": "web"}, `scenario,variant,size_bin,flows,` + trustAndFCT +
		`
aaa,own,<10 KB,3,2,2.8,2.98,2.998,3,0.0002,0.000298,,,2.5,3.5,,,,,"see warnings: fan-in, loaded twice"
aaa,own,>1 MB,1,10,10,10,10,10,0.001,0.001,,,,,,,,,
aaa,own,all,4,2.5,7.9,9.79,9.979,10,0.00025,0.000979,2,3,,,,,,,"see warnings: fan-in, loaded twice"`},
	{"slowdown_by", nil, `scenario,variant,flow_group,flows,` + trust + `
aaa,own,blue,2,3.5,3.9,3.99,3.999,4,,,,,,,,,
aaa,own,red,5,5,8.4,9.84,9.984,10,,,,,9,10,,,"p99: short; see warnings: fan-in, loaded twice"`},
	// Without scenario and variant, the answers of all scenarios have separate rows.
	{"slowdown_by", map[string]string{"scenario": "", "variant": ""}, `scenario,variant,flow_group,flows,` +
		trust + `
007,own,,4,2.5,3.7,3.97,3.997,4,,,,,,,,,
aaa,own,blue,2,3.5,3.9,3.99,3.999,4,,,,,,,,,
aaa,own,red,5,5,8.4,9.84,9.984,10,,,,,9,10,,,"p99: short; see warnings: fan-in, loaded twice"
jjj,exact,,3,1,1.16,1.196,1.1996,1.2,,,,,,,,,`},
	// A variant that is not the answer.
	{"slowdown_by", map[string]string{"variant": "paper"}, `scenario,variant,flow_group,flows,` + trust + `
aaa,paper,blue,2,4.5,4.9,4.99,4.999,5,,,,,,,,,
aaa,paper,red,5,6,9.4,10.84,10.984,11,,,,,,,,,`},
	{"slowdown_by", map[string]string{"by": "rack"}, `scenario,variant,flow_group,flows,` + trust + `
aaa,own,rack 1,3,4,8.8,9.88,9.988,10,,,,,,,,,
aaa,own,t0,4,3.5,5.7,5.97,5.997,6,,,,,,,,,`},
	// A rack that is not in the lake.
	{"slowdown_by", map[string]string{"by": "rack", "scenario": "007"}, `scenario,variant,flow_group,flows,` +
		trust + `
007,own,,4,2.5,3.7,3.97,3.997,4,,,,,,,,,`},
	{"slowdown_by", map[string]string{"by": "hops"}, `scenario,variant,flow_group,flows,` + trust + `
aaa,own,2,2,5.5,9.1,9.91,9.991,10,,,,,,,,,
aaa,own,4,2,2.5,2.9,2.99,2.999,3,,,,,,,,,
aaa,own,6,3,5,5.8,5.98,5.998,6,,,,,,,,,`},
	{"worst_of_service", map[string]string{"service": "web", "min_flows": "2"}, worstOfService + `
aaa,own,web,1,rack 1,,,,2,6.5,9.93,10
aaa,own,web,2,t0,,,,2,1.5,1.99,2`},
	{"worst_of_service", map[string]string{"by": "pair", "n": "1", "min_flows": "1"}, worstOfService + `
aaa,own,db,1,t0,rack 1,,,2,5.5,5.99,6
aaa,own,web,1,rack 1,t0,,,2,6.5,9.93,10`},
	{"worst_of_service", map[string]string{"by": "minute", "min_flows": "1"}, worstOfService + `
aaa,own,db,1,,,0,60000000000,3,5,5.98,6
aaa,own,web,1,,,0,60000000000,4,2.5,9.79,10`},
	{"hottest_links", map[string]string{"n": "2"},
		`scenario,variant,place,link_id,link,src_node,dst_node,src_name,dst_name,tier,` +
			`bandwidth_bps,flows,bytes,load,max_queue_bytes
aaa,own,1,4,h1 → t0,1,2,h1,t0,host-tor,10000000000,4,1500,0.75,4000
aaa,own,2,0,h0 → t0,0,2,h0,t0,host-tor,10000000000,4,1000,0.5,2000`},
	// Eleven links are up, so that the top 10% are two links. Eight of the eleven carry nothing.
	{"load_top10", nil, `scenario,variant,links,top_links,max_load,top10_mean_load,mean_load
aaa,own,11,2,0.75,0.625,0.13636363636363635`},
	// Only flow 16 is above p99 = 9.76.
	{"p99_links", nil, p99Links + `
aaa,own,1,4,h1 → t0,1,2,host-tor,0.75,0.8008008008008008,web,1,400,0.8008008008008008,
aaa,own,2,0,h0 → t0,0,2,host-tor,0.5,0.1991991991991992,web,1,99.5,0.1991991991991992,`},
	{"job_iterations", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,job,iteration,flows,bytes,start_ns,end_ns,iteration_ns,completion_ns
jjj,exact,a,0,1,1000,5,175,170,270
jjj,exact,a,1,1,2000,175,275,100,270`},
	{"job_critical_path", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,job,kind,flows,waited_ns,ideal_ns,delay_ns
jjj,exact,a,all-reduce,2,0,200,20
jjj,exact,a,compute,1,50,0,0`},
	{"slowest_flows", map[string]string{"n": "2"},
		slowestFlows + `
aaa,own,1,16,web,red,1,0,h1,h0,1000001,149999999,1000,100,10.0,4,h1 → t0,400.0,""
aaa,own,2,15,db,red,0,1,h0,h1,1000000,100000000,600,100,6.0,0,h0 → t0,200.5,""`},
	{"flows_at_link", map[string]string{"link": "4", "to_ns": "200000000"},
		flowsAtLink + `
aaa,own,4,1,16,web,red,1,0,h1,h0,1000001,149999999,1000,10.0,400.0`},
	{"flows_at_link", map[string]string{"link": "h1:t0", "to_ns": "200000000"},
		flowsAtLink + `
aaa,own,4,1,16,web,red,1,0,h1,h0,1000001,149999999,1000,10.0,400.0`},
	// Flow 15 crosses link 2 without delay.
	{"flows_at_link", map[string]string{"link": "2", "to_ns": "200000000"},
		flowsAtLink + `
aaa,own,2,1,15,db,red,0,1,h0,h1,1000000,100000000,600,6.0,0.0
aaa,own,2,2,14,db,red,0,1,h0,h1,100000,50000000,500,5.0,300.0`},
	{"flows_at_link", map[string]string{"scenario": "jjj", "variant": "", "link": "t0:h1"},
		flowsAtLink + `
jjj,exact,1,1,103,a,,0,1,h0,h1,2000,175,100,1.0,0.0
jjj,exact,1,2,102,a,,0,1,h0,h1,1000,55,120,1.2,5.0`},
	// No link delays flow 103.
	{"slowest_flows", map[string]string{"scenario": "jjj", "variant": "", "n": "2"},
		slowestFlows + `
jjj,exact,1,102,a,,0,1,h0,h1,1000,55,120,100,1.2,0,h0 → t0,15.0,` + waitsAtHost + `
jjj,exact,2,103,a,,0,1,h0,h1,2000,175,100,100,1.0,,,,""`},
	{"p99_links", map[string]string{"scenario": "jjj", "variant": "", "limit": "0.5"},
		p99Links + `
jjj,exact,1,0,h0 → t0,0,2,host-tor,0.5,0.75,a,2,15,0.75,` + waitsAtHost + `
jjj,exact,1,0,h0 → t0,0,2,host-tor,0.5,0.75,web,1,0,0,` + waitsAtHost + `
jjj,exact,2,1,t0 → h1,2,1,tor-host,0.25,0.25,a,2,5,0.25,`},
	// The start has no duration and no row. The two transfers follow each other without a pause.
	{"job_gantt", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,job,place,host,kind,begin_ms,end_ms,flows
jjj,exact,a,1,h0,compute,0,5e-05,1
jjj,exact,a,1,h0,all-reduce,5e-05,0.00027,2`},
	{"job_links", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,job,place,link_id,link,tier,flows,delay_ns,job_share,other_bytes,behind,behind_share
jjj,exact,a,1,0,h0 → t0,host-tor,2,15,0.75,500,web,1
jjj,exact,a,2,1,t0 → h1,tor-host,2,5,0.25,0,,`},
	{"job_hosts", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,job,place,host,flows,waited_ns,ideal_ns,delay_ns,path_share
jjj,exact,a,1,h0,4,50,200,20,1`},
	// h1 pauses t0, which therefore pauses h0.
	{"drops_and_pauses", map[string]string{"scenario": "jjj", "variant": "exact"},
		`scenario,variant,place,link_id,link,tier,load,drops,paused_ns,paused_by,passed_on,all_drops,all_paused_ns,links
jjj,exact,1,1,t0 → h1,tor-host,0.25,7,100,h1,false,7,400,2
jjj,exact,2,0,h0 → t0,host-tor,0.5,0,300,t0,true,7,400,2`},
	// Flows 1 and 2 have slowdowns 2 and 3.
	{"resent_packets", map[string]string{"scenario": "007", "variant": "own"},
		`scenario,variant,size_bin,flows_hit,flows_resent,retransmissions,flows_reordered,reordered,p99_hit_slowdown
007,own,all,2,2,5,1,1,2.99
007,own,<10 KB,2,2,5,1,1,2.99`},
	{"sampled_percentiles", map[string]string{"variant": "own-sampled-2"},
		`scenario,variant,service,vnet,size_bin,flows,quantile,slowdown,lo,hi,windows,sampled_share,estimated_from,warning
aaa,own-sampled-2,,,all,20,0.5,4,3,5,2,0.25,"sampled, 2 windows, 25% of flows",
aaa,own-sampled-2,,red,all,16,0.5,4,3,5,2,0.25,"sampled, 2 windows, 25% of flows",
aaa,own-sampled-2,db,,all,8,0.99,6,5,7,2,0.25,"sampled, 2 windows, 25% of flows",few`},
	{"what_changed", nil, `scenario,variant,base_scenario,base_variant,service,vnet,size_bin,hops,flows,quantile,base_slowdown,slowdown,change,change_lo,change_hi,base_fct_ms,fct_ms,fct_change,fct_change_lo,fct_change_hi
aaa,own,007,own,all,all,all,all,7,0.5,4,4,0,0,0.125,0.002,0.001,-0.5,-0.75,-0.25
aaa,own,007,own,web,all,all,all,4,0.5,2,3,0.5,0.25,0.75,0.001,0.001,0,0,0`},
	{"what_changed_links", map[string]string{"base_scenario": "007"},
		`scenario,variant,base_scenario,base_variant,place,base_link_id,link_id,link,tier,base_load,load,tail_flows,base_delay_ns,delay_ns,difference_ns
aaa,own,007,own,1,4,4,h1 → t0,host-tor,0.5,0.75,3,100,350.5,250.5
aaa,own,007,own,2,99,,h9 → t0,host-tor,0.5,0.25,3,50,0,-50`},
	{"worst_failures", nil, `scenario,variant,tier,service,place,cable,node_a,node_b,flows,unreachable,estimated,p50_slowdown,p90_slowdown,p99_slowdown,p999_slowdown,p50_change,p90_change,p99_change,p999_change,p50_fct_ms,p99_fct_ms
aaa,own,x,all,1,h0:t0,0,2,7,1,flow-2,1,2,3,4,0,0.5,0.5,0.125,0.001,0.003
aaa,own,x,all,2,t0:s0,2,3,7,0,flow-1,1,2,3,4,0,0.5,0.25,0.125,0.001,0.003`},
	{"parameter_sweep", map[string]string{"sweep": "small"},
		`scenario,variant,sweep,settings,label,parameter,name,parameter_place,value,value_number,value_place,flows,p50_slowdown,p90_slowdown,p99_slowdown,p999_slowdown,p50_exact,p90_exact,p99_exact,p999_exact,seconds
aaa,own,small,"max_load=40%, seed=1",40%,max_load,max_load,1,40%,0.4,1,7,4,8,9.5,,5,9,9,,1.5
aaa,own,small,"max_load=40%, seed=1",40%,seed,seed,2,1,1,1,7,4,8,9.5,,5,9,9,,1.5`},
	// Only the runs of aaa were compared with the truth, and only at p99.
	{"sweep_errors", map[string]string{"sweep": "small", "size_bin": "<10 KB"},
		`scenario,variant,sweep,settings,parameter,name,parameter_place,value,value_place,flows,` +
			`slowdown,true_slowdown,error,error_lo,error_hi
aaa,own,small,"max_load=40%, seed=1",max_load,max_load,1,40%,1,3,3,2.5,0.2,0.1,0.3
aaa,own,small,"max_load=40%, seed=1",seed,seed,2,1,1,3,3,2.5,0.2,0.1,0.3`},
	{"sweep_error_by_size", map[string]string{"sweep": "small"},
		`scenario,variant,sweep,settings,size_bin,runs,flows,p50_error,p90_error,p99_error,p999_error,` +
			`p99_abs_error,p99_largest_error
,,small,all runs,all,1,7,,,-0.05,,0.05,-0.05
,,small,all runs,<10 KB,1,3,,,0.2,,0.2,0.2
aaa,own,small,"max_load=40%, seed=1",all,1,7,,,-0.05,,0.05,-0.05
aaa,own,small,"max_load=40%, seed=1",<10 KB,1,3,,,0.2,,0.2,0.2`},
	// Flows 14, 15 and 16, which are rows 5 to 7, are above the median, with 1,100 ns together. Links 0 and 4
	// add 400 ns each; the lower id comes first.
	{"p99_links", map[string]string{"quantile": "0.5", "n": "2"},
		p99Links + `
aaa,own,1,0,h0 → t0,0,2,host-tor,0.5,0.36363636363636365,db,2,300.5,0.27318181818181817,
aaa,own,1,0,h0 → t0,0,2,host-tor,0.5,0.36363636363636365,web,1,99.5,0.09045454545454545,
aaa,own,2,4,h1 → t0,1,2,host-tor,0.75,0.36363636363636365,web,1,400,0.36363636363636365,`},
	// The time range has two of the three flows of web in red. The interval of the three does not apply to them.
	{"slowdown_by_service_vnet", map[string]string{"from_ns": "0", "to_ns": "149999999"},
		`scenario,variant,service,vnet,flows,flow_share,byte_share,` + percentiles +
			`,p50_fct_ms,p99_fct_ms,all_p50_slowdown,all_p99_slowdown,p99_over_all` + bounds + `
aaa,own,db,blue,1,0.16666666666666666,0.008904727430746,4,4,4,4,4,0.0004,0.0004,3.5,5.95,0.6722689075630252,,,,,,,,,
aaa,own,db,red,2,0.3333333333333333,0.979520017382028,5.5,5.9,5.99,5.999,6,0.00055,0.000599,3.5,5.95,1.0067226890756302,5,6,,,,,,,"see warnings: fan-in, loaded twice"
aaa,own,web,blue,1,0.16666666666666666,0.008903836958002634,3,3,3,3,3,0.0003,0.0003,3.5,5.95,0.5042016806722689,,,,,,,,,
aaa,own,web,red,2,0.3333333333333333,0.0026714182292237,1.5,1.9,1.99,1.999,2,0.00015,0.000199,3.5,5.95,0.33445378151260504,,,,,,,,,`},
	{"p99_links", map[string]string{"quantile": "0.5", "service": "db", "n": "1"},
		p99Links + `
aaa,own,1,0,h0 → t0,0,2,host-tor,0.5,1,db,1,200.5,1,`},
	{"p99_links", map[string]string{"limit": "5.5", "n": "1"},
		p99Links + `
aaa,own,1,4,h1 → t0,1,2,host-tor,0.75,0.5714285714285714,web,1,400.0,0.5714285714285714,`},
	{"slo_misses", map[string]string{"slo": "2.5"},
		`scenario,variant,service,from_ns,flows,misses,miss_share,miss_byte_share,max_slowdown
aaa,own,db,0,3,3,1,1,6
aaa,own,web,0,4,2,0.5,0.9970384995064165,10`},
	{"synthetic_share", nil, `scenario,variant,service,flows,synthetic_flows,flow_share,bytes,synthetic_bytes,byte_share
aaa,own,db,3,1,0.3333333333333333,1110000,100000,0.09009009009009009
aaa,own,web,5,2,0.4,1013001,1002001,0.9891411755763321`},
	// Flows of 10 to 40 ns that start at 0, 1, 2 and 3 ns.
	{"recovery_after_event", map[string]string{"scenario": "007", "from_ns": "1", "to_ns": "3",
		"slot_ms": "0.000001", "within": "1"},
		`scenario,variant,measure,before,worst,worst_ns,recovered_ns,flows_hit,event_ns,end_ns,note
007,own,p99_slowdown,,4.0,2,,2,1,3,`},
	{"recovery_after_event", map[string]string{"scenario": "007", "from_ns": "1", "to_ns": "2",
		"slot_ms": "0.000001", "event_lengths": "0.5"},
		`scenario,variant,measure,before,worst,worst_ns,recovered_ns,flows_hit,event_ns,end_ns,note
007,own,p99_slowdown,,3.0,1,,1,1,2,`},
	{"recovery_after_event", map[string]string{"scenario": "aaa"},
		`scenario,variant,measure,before,worst,worst_ns,recovered_ns,flows_hit,event_ns,end_ns,note
aaa,own,p99_slowdown,2.98,10.0,140000000,,0,4000000,60000000,no flow was hit
aaa,own,goodput_gbps,0.025998,0.005714285714285714,0,,0,4000000,60000000,no flow was hit`},
	// Links without flows.
	{"path_shares", map[string]string{"switch": "t0"},
		`scenario,variant,switch,tier,link_id,link,bytes,share,fair_share,ratio,spread
aaa,own,t0,x,6,t0 → s0 (member 2),0,,0.2,,
aaa,own,t0,x,7,t0 → s0 (member 3),0,,0.2,,
aaa,own,t0,x,8,t0 → s0 (member 4),0,,0.2,,
aaa,own,t0,x,9,t0 → s0 (member 5),0,,0.2,,
aaa,own,t0,x,10,t0 → s0 (member 6),0,,0.2,,`},
	{"link_loads_over_time", map[string]string{"links": "1"},
		`scenario,variant,tier,link_id,link,place,from_ns,to_ns,time_s,bytes,load
aaa,own,host-tor,4,h1 → t0,1,110,210,0.0000001,100,0.5
aaa,own,tor-spine,2,t0 → s0 (member 1),1,10,110,0,10,0.25`},
	{"link_loads_over_time", map[string]string{"link": "t0:h0"},
		`scenario,variant,tier,link_id,link,place,from_ns,to_ns,time_s,bytes,load
aaa,own,host-tor,0,h0 → t0,2,10,110,0,80,0.4
aaa,own,host-tor,0,h0 → t0,2,110,210,0.0000001,40,0.2`},
	{"link_loads_over_time", map[string]string{"link": "2"},
		`scenario,variant,tier,link_id,link,place,from_ns,to_ns,time_s,bytes,load
aaa,own,tor-spine,2,t0 → s0 (member 1),1,10,110,0,10,0.25`},
	{"link_loads_over_time", map[string]string{"link": "t0 → s0 (member 1)"},
		`scenario,variant,tier,link_id,link,place,from_ns,to_ns,time_s,bytes,load
aaa,own,tor-spine,2,t0 → s0 (member 1),1,10,110,0,10,0.25`},
	// Flow 102 waits at link 0, which flow 104 uses for 100 of the 120 ns. Flow 103 starts when 102 has ended.
	{"waits_behind", map[string]string{"scenario": "jjj", "variant": ""},
		`scenario,variant,link_id,link,flow_id,service,vnet,src_name,dst_name,size_bytes,start_ns,fct_ns,slowdown,tail_flows,tail_delay_ns,overlap_ns,overlap_bytes
jjj,exact,0,h0 → t0,104,web,,h0,h1,500,60,100,1,1,15,100,500`},
	{"waits_behind", map[string]string{"scenario": "jjj", "variant": "", "link": "t0:h1"},
		`scenario,variant,link_id,link,flow_id,service,vnet,src_name,dst_name,size_bytes,start_ns,fct_ns,slowdown,tail_flows,tail_delay_ns,overlap_ns,overlap_bytes`},
	// From the first event, at 4 ms, to the end of the last, at 60 ms.
	{"slowdown_around_event", nil,
		`scenario,variant,phase,from_ns,to_ns,flows,p50_slowdown,p99_slowdown,max_slowdown,retransmissions,reordered,event_ns,end_ns
aaa,own,before,0,14000000,3,2,2.98,3,0,0,4000000,60000000
aaa,own,during,0,14000000,1,4,4,4,0,0,4000000,60000000
aaa,own,during,42000000,56000000,1,5,5,5,0,0,4000000,60000000
aaa,own,after,98000000,112000000,1,6,6,6,0,0,4000000,60000000
aaa,own,after,140000000,154000000,1,10,10,10,0,0,4000000,60000000`},
	{"slowdown_around_event", map[string]string{"scenario": "007", "from_ns": "11", "to_ns": "12",
		"slot_ms": "0.00002"}, `scenario,variant,phase,from_ns,to_ns,flows,p50_slowdown,p99_slowdown,max_slowdown,retransmissions,reordered,event_ns,end_ns
007,own,before,0,20,1,1,1,1,0,0,11,12
007,own,during,0,20,3,3,3.98,4,5,1,11,12`},
	{"slowdown_around_event", map[string]string{"scenario": "007", "from_ns": "11",
		"to_ns": "9223372036854775807", "slot_ms": "0.00002"},
		`scenario,variant,phase,from_ns,to_ns,flows,p50_slowdown,p99_slowdown,max_slowdown,retransmissions,reordered,event_ns,end_ns
007,own,before,0,20,1,1,1,1,0,0,11,9223372036854775807
007,own,during,0,20,3,3,3.98,4,5,1,11,9223372036854775807`},
}

// Short tests ask a third of the questions with known answers each day.
func TestKnownAnswers(t *testing.T) {
	lake := makeKnownLake(t)
	writeParts(t, rawDB(t), lake, jobLake)
	db := open(t, lake, Options{})
	tested := map[string]bool{}
	for i, c := range slices.Concat(knownAnswers, chartAnswers) {
		tested[c.query] = true
		if daily.Skips(i, 3) {
			continue
		}
		params := map[string]string{"scenario": "aaa", "variant": "own"}
		for k, v := range c.params {
			params[k] = v
		}
		t.Run(fmt.Sprintf("%s %v", c.query, c.params), func(t *testing.T) {
			sameCSV(t, answer(t, db, c.query, "csv", params), c.want)
		})
	}
	for _, q := range listed(t) {
		if !tested[q.Name] {
			t.Errorf("no known answer for %s", q.Name)
		}
	}
}

// Table hop_contributions of old lakes has a row for each hop, that of new lakes only for hops that add to an
// FCT. An answer that counts the rows would then have fewer flows.
func TestHopsWithoutDelayNeedNoRows(t *testing.T) {
	lake := makeKnownLake(t)
	raw := rawDB(t)
	writeParts(t, raw, lake, jobLake)
	parts, err := filepath.Glob(filepath.Join(lake, "hop_contributions/*/*/part-*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("%d files, %v", len(parts), err)
	}
	for _, part := range parts {
		exec(t, raw, fmt.Sprintf("COPY (FROM %s WHERE delay_ns <> 0) TO %s (FORMAT parquet)",
			duckdb.ScanParquet(part), duckdb.Quote(part+".sparse")))
		if err := os.Rename(part+".sparse", part); err != nil {
			t.Fatal(err)
		}
	}
	db := open(t, lake, Options{})
	asked := map[string]bool{}
	for _, c := range slices.Concat(knownAnswers, chartAnswers) {
		q, err := Get(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(q.SQL, "hop_contributions") {
			continue
		}
		asked[c.query] = true
		params := map[string]string{"scenario": "aaa", "variant": "own"}
		for k, v := range c.params {
			params[k] = v
		}
		t.Run(fmt.Sprintf("%s %v", c.query, c.params), func(t *testing.T) {
			sameCSV(t, answer(t, db, c.query, "csv", params), c.want)
		})
	}
	if len(asked) != 7 {
		t.Errorf("%d questions read hop_contributions: %v", len(asked), asked)
	}
}

// Estimates by link cases have the paths of table hops, and simulations of the whole network those of table
// exact_hops. Estimates from windows of time have none.
func TestCrossings(t *testing.T) {
	lake := makeKnownLake(t)
	writeParts(t, rawDB(t), lake, jobLake)
	db := open(t, lake, Options{})
	const links = "SELECT variant, list((flow_row, hop, link_id) ORDER BY flow_row, hop)::VARCHAR AS links " +
		"FROM %s WHERE scenario = '%s' GROUP BY variant ORDER BY variant"
	const aaa = `"[(0, 0, 0), (1, 0, 0), (5, 0, 0), (5, 1, 2), (6, 0, 0), (6, 1, 2), (7, 0, 4), (7, 1, 0)]"`
	for text, want := range map[string]string{
		fmt.Sprintf(links, "crossings", "aaa"):     "variant,links\nown," + aaa + "\n",
		fmt.Sprintf(links, "crossings_all", "aaa"): "variant,links\nown," + aaa + "\npaper," + aaa + "\n",
		fmt.Sprintf(links, "crossings", "jjj"): "variant,links\nexact," +
			`"[(2, 0, 0), (2, 1, 1), (3, 0, 0), (3, 1, 1), (4, 0, 0)]"` + "\n",
	} {
		got := sqlCSV(t, db, text)
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
}

// isAskedToday reports whether a test that asks a third of the questions each day asks a question today. Short
// tests ask a ninth.
func isAskedToday(question string) bool {
	parts := 3
	if testing.Short() {
		parts = 9
	}
	return daily.Runs(int(crc32.ChecksumIEEE([]byte(question))%9), parts)
}

// The view of a question gives the same answer as the question with its defaults. A third of the
// questions is asked today.
func TestViewsAreTheQuestions(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	for _, q := range listed(t) {
		if !isAskedToday(q.Name) {
			continue
		}
		want := answer(t, db, q.Name, "csv", nil)
		got := sqlCSV(t, db, "FROM "+q.Name)
		if got != want {
			t.Errorf("%s: view gives\n%s\nquestion gives\n%s", q.Name, got, want)
		}
	}
}

func sqlCSV(t *testing.T, db *DB, text string) string {
	t.Helper()
	out, err := written(db, text, "csv")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// Remarks about the flows appear in no answer about a group.
func TestRemarksAboutFlows(t *testing.T) {
	lake := makeKnownLake(t)
	writePart(t, rawDB(t), lake, "warnings", "scenario=aaa/variant=own",
		"VALUES ('flows', NULL, NULL, NULL, 'remark')")
	db := open(t, lake, Options{})
	plain := answer(t, open(t, makeKnownLake(t), Options{}), "slowdown_by_size", "csv", nil)
	again := answer(t, db, "slowdown_by_size", "csv", nil)
	if again != plain {
		t.Errorf("with remarks about flows:\n%s\nwithout:\n%s", again, plain)
	}
}

// Every size is in exactly one bin, and in 'all'.
func TestSizeBinsCover(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	got := sqlCSV(t, db, `SELECT count(*) AS bad FROM (
		SELECT s.n, count(*) FILTER (WHERE b.size_bin <> 'all') AS bins, count(*) FILTER (WHERE b.size_bin = 'all') AS whole
		FROM (SELECT unnest([1, 9999, 10000, 99999, 100000, 1000000, 1000001, 9223372036854775807]) AS n) AS s
		JOIN size_bins AS b ON s.n BETWEEN b.size_min_bytes AND b.size_max_bytes GROUP BY s.n
	) WHERE bins <> 1 OR whole <> 1`)
	if got != "bad\n0\n" {
		t.Error(got)
	}
}

var filesRead = regexp.MustCompile(`"Total Files Read": *"?(\d+)`)

// A condition on scenario or variant, in a parameter or around a view, must not open other files. Otherwise
// queries of large lakes would be slow. A third of the questions is asked today.
func TestPruning(t *testing.T) {
	lake := makeKnownLake(t)
	db := open(t, lake, Options{})
	createAll(t, db)
	check := func(what, plan string) {
		t.Helper()
		read := 0
		for _, found := range filesRead.FindAllStringSubmatch(plan, -1) { // scans of a join stand side by side
			read++
			if n, err := strconv.Atoi(found[1]); err != nil || n > 1 {
				t.Errorf("%s: a scan reads %s files", what, found[1])
			}
		}
		if read == 0 && !strings.Contains(plan, "EMPTY_RESULT") {
			t.Errorf("%s: no scan in the plan\n%s", what, plan)
		}
	}
	explain := func(text string) string {
		t.Helper()
		var key, plan string
		if err := db.sql.QueryRow("EXPLAIN (ANALYZE, FORMAT json) "+text).Scan(&key, &plan); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return plan
	}
	for _, q := range listed(t) {
		if !isAskedToday(q.Name) {
			continue
		}
		// Scenario 007 has at most one file in each table. Questions that pass a list between two scans, or follow
		// a path, are pruned by parameters only.
		if !strings.Contains(q.SQL, "unnest(list(") && !strings.Contains(q.SQL, "RECURSIVE") {
			check(q.Name+" as a view", explain("SELECT * FROM "+q.Name+" WHERE scenario = '007' AND variant = 'own'"))
		}
		text, err := q.With(map[string]string{"scenario": "007", "variant": "own"})
		if err != nil {
			t.Fatal(err)
		}
		check(q.Name+" with parameters", explain(text))
	}
	check("variant alone", explain("SELECT * FROM slowdowns_all WHERE variant = 'paper'"))
}

// A planNode is an operator of DuckDB's plan.
type planNode struct {
	Info     map[string]any `json:"extra_info"`
	Children []planNode     `json:"children"`
}

// scans returns the number of scans that read exactly the given columns.
func (n *planNode) scans(columns []string) (count int) {
	if len(n.Children) == 0 && fmt.Sprint(n.Info["Projections"]) == fmt.Sprint(columns) {
		return 1
	}
	for i := range n.Children {
		count += n.Children[i].scans(columns)
	}
	return count
}

// A question about one scenario names only the links of this scenario. View link_names numbers the links of
// all scenarios that it reads, which takes seconds in a large lake. No other scan reads the same columns.
func TestLinkNamesOfOneScenario(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	createAll(t, db)
	tried := 0
	for _, q := range listed(t) {
		if !strings.Contains(q.SQL, "FROM link_names") {
			continue
		}
		tried++
		if testing.Short() && !isAskedToday(q.Name) {
			continue
		}
		text, err := q.With(map[string]string{"scenario": "aaa", "variant": "own"})
		if err != nil {
			t.Fatal(err)
		}
		var key, plan string
		if err := db.sql.QueryRow("EXPLAIN (FORMAT json) "+text).Scan(&key, &plan); err != nil {
			t.Fatalf("%s: %v", q.Name, err)
		}
		var roots []planNode
		if err := json.Unmarshal([]byte(plan), &roots); err != nil {
			t.Fatal(err)
		}
		all := planNode{Children: roots}
		scans := all.scans([]string{"link_id", "src_node", "dst_node", "src_port"})
		if scans != 1 {
			t.Errorf("%s names the links of %d scenarios", q.Name, scans)
		}
	}
	if tried < 10 {
		t.Errorf("%d questions", tried)
	}
}

func TestParams(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	for _, c := range []struct{ query, name, value, want string }{
		{"slowdown_by_size", "n", "3",
			`query slowdown_by_size: no parameter "n"; the parameters are scenario, variant`},
		{"hottest_links", "n", "three", `query hottest_links: parameter n: want a whole number`},
		{"hottest_links", "n", "0", `parameter n: want a whole number from 1`},
		{"hottest_links", "n", "1 OR 1=1", `parameter n: want a whole number`},
		{"slowdown_and_load_over_time", "slots", "-1", `parameter slots: want a whole number from 1`},
		{"recovery_after_event", "slot_ms", "-1", `parameter slot_ms: want a number above 0`},
		{"recovery_after_event", "slot_ms", "NaN", `parameter slot_ms: want a number above 0`},
		{"slowdown_by", "by", "size", `parameter by: want one of vnet, rack, hops, got "size"`},
		{"p99_links", "quantile", "1", `parameter quantile: want a number above 0 and below 1`},
		{"sweep_errors", "quantile", "0.95", `parameter quantile: want one of 0.5, 0.9, 0.99, 0.999, got`},
	} {
		q, err := Get(c.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Run(context.Background(), q, map[string]string{c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s=%s: want %q, got %v", c.query, c.name, c.value, c.want, err)
		}
	}
	// A value can only be a literal of the statement.
	got := answer(t, db, "tail_by_tier", "csv", map[string]string{"service": "' OR '1'='1"})
	if records, err := csv.NewReader(strings.NewReader(got)).ReadAll(); err != nil || len(records) != 1 {
		t.Errorf("%v\n%s", err, got)
	}
}

// With --cluster, most links are not simulated. A queue of 0 would look like a measured one. Here, link 4 is
// the representative of link 0.
func TestQueueOfALinkThatWasNotSimulated(t *testing.T) {
	lake := makeKnownLake(t)
	writePart(t, rawDB(t), lake, "link_stats", "scenario=aaa/variant=clustered",
		`VALUES (0, 0, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 4, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, [], [],
			false, 0, 0),
		(4, 1, 2, 'host-tor', 10000000000, 9000000000, 4, 1500, 4, 0.75, 4, 0, 100, 4000, 7, 0.25, 1.5, 0.5, [],
			[], false, 0, 0)`)
	got := answer(t, open(t, lake, Options{}), "hottest_links", "csv", map[string]string{"variant": "clustered"})
	for _, want := range []string{",4,1500,0.75,4000\n", ",4,1000,0.5,\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no row %q in\n%s", want, got)
		}
	}
}

// An answer without rows names the parameter that excludes them all, even if the value that excludes none is
// a word. Otherwise a misspelled size bin looks as if the lake had no data.
func TestEmptied(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	for _, c := range []struct{ query, name, value, want string }{
		{"sweep_errors", "size_bin", "10kb", "size_bin=10kb"},
		{"worst_failures", "service", "nosuch", "service=nosuch"},
		{"slowdown_by_size", "service", "nosuch", "service=nosuch"},
	} {
		q, err := Get(c.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Emptied(context.Background(), q, map[string]string{c.name: c.value})
		if err != nil || got != c.want {
			t.Errorf("%s %s=%s: %q excludes all rows, want %q (%v)", c.query, c.name, c.value, got, c.want,
				err)
		}
	}
}

// Answers are equal to the bit for any number of threads. A third of the questions is asked
// today.
func TestThreads(t *testing.T) {
	lake := makeBigLake(t, 20_000)
	one := open(t, lake, limits(1, 0))
	four := open(t, lake, limits(4, 1<<30))
	for _, q := range listed(t) {
		if !isAskedToday(q.Name) {
			continue
		}
		a := answer(t, one, q.Name, "csv", nil)
		b := answer(t, four, q.Name, "csv", nil)
		if strings.Count(a, "\n") < 2 {
			t.Errorf("%s has no rows in the large lake: add some to makeBigLake", q.Name)
		}
		if a != b {
			t.Errorf("%s: one thread gives\n%s\nfour give\n%s", q.Name, a, b)
		}
	}
}

// A question with a time range reads only the row groups of the range, because slowdowns are sorted by start.
// It has an answer although another row group is damaged. Without a range, the damage is an error.
func TestWindowPrunes(t *testing.T) {
	raw := rawDB(t)
	lake := filepath.Join(t.TempDir(), "lake")
	writePart(t, raw, lake, "slowdowns", "scenario=a/variant=own",
		`SELECT i, i, 0, 1, 'web', 'net', 1000, i * 1000, 2, 1000, 2000, 0, 2 + (i % 7) / 7, 0, 0 FROM range(500000) AS r(i)`)
	file := filepath.Join(lake, "slowdowns/scenario=a/variant=own/part-00000.parquet")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < len(data)/6; i++ { // of five row groups
		data[i] = 0xff
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	db := open(t, lake, Options{})
	for _, q := range []string{"slo_misses", "slowdown_by_service_vnet", "worst_of_service"} {
		got := answer(t, db, q, "csv", map[string]string{"from_ns": "400000000", "to_ns": "401000000"})
		if !strings.Contains(got, ",1000,") {
			t.Errorf("%s of a window:\n%s", q, got)
		}
		query, err := Get(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := db.Text(query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := written(db, text, "csv"); err == nil {
			t.Errorf("%s of all times reads a damaged file without an error", q)
		}
	}
	got := sqlCSV(t, db, "SELECT count(*) AS n, max(slowdown) > 2 AS more FROM slowdowns WHERE start_ns >= "+
		"400000000 AND start_ns < 401000000")
	if got != "n,more\n1000,true\n" {
		t.Error(got)
	}
}
