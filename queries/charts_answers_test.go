package queries

// logAgainstRun are the columns of question log_against_run.
const logAgainstRun = "scenario,variant,link_id,link,tier,place,from_ns,to_ns,time_s,log_gbps,simulated_gbps," +
	"counted_gbps,earlier_share,misplaced_share"

// messageSizeEffect are the columns of question message_size_effect.
const messageSizeEffect = "scenario,variant,service,message_bytes,p99_slowdown,p99_third,p99_third_lo," +
	"p99_third_hi,p99_triple,p99_triple_lo,p99_triple_hi,p99_low,p99_high,windows,windows_share,few"

// chartAnswers are known answers of the questions with charts.
var chartAnswers = []knownAnswer{
	// 1,000 bytes in 100 ns are 80 Gbps. Link 0 has 1,000 of 2,000 bytes too many, link 2 has 100 of 400 too
	// few.
	{"log_against_run", nil, logAgainstRun + `
aaa,own,0,h0 → t0,host-tor,1,10,110,0,80,80,,0,0.5
aaa,own,0,h0 → t0,host-tor,1,110,210,0.0000001,80,160,,0.5,0.5
aaa,own,2,t0 → s0 (member 1),tor-spine,2,10,110,0,32,24,40,0,0.25`},
	{"log_against_run", map[string]string{"link": "2"}, logAgainstRun + `
aaa,own,2,t0 → s0 (member 1),tor-spine,2,10,110,0,32,24,40,0,0.25`},
	{"log_against_run", map[string]string{"links": "1", "slots": "1"}, logAgainstRun + `
aaa,own,0,h0 → t0,host-tor,1,10,210,0,80,120,,0.25,0.5`},
	// p99 of all flows is 9 in table intervals. That of web is known from the windows only.
	{"message_size_effect", nil, messageSizeEffect + `
aaa,own,web,48,8,8,8,8,10,8,12,8,10,2,0.5,true
aaa,own,,,9,6.75,4.5,9,13.5,11.25,15.75,6.75,13.5,2,0.5,false`},
	// The link with the highest load is 4. The last flow starts 150 ms less one ns after the first.
	{"headline", nil, `scenario,variant,flows,bytes,span_ns,services,vnets,p50_slowdown,p90_slowdown,p99_slowdown,p999_slowdown,max_slowdown,p50_fct_ms,p99_fct_ms,p50_lo,p50_hi,p90_lo,p90_hi,p99_lo,p99_hi,p999_lo,p999_hi,max_load,max_load_link,max_load_tier,max_load_src,max_load_dst,max_load_name
aaa,own,7,2123000,149999999,2,2,4,7.600000000000001,9.759999999999998,9.975999999999999,10,0.0004,0.000976,3,5,7,9,8,10,9,11,0.75,4,host-tor,h1,t0,h1 → t0`},
	// Two steps for a factor of 10: cells end at 1, 3.16 and 10. Flows of all sizes come first.
	{"slowdown_cdf", map[string]string{"min_flows": "3", "steps": "2"},
		`scenario,variant,source,service,vnet,size_bin,flows,slowdown,share,slower_share
aaa,own,estimate,,,all,7,1,0.14285714285714285,0.8571428571428572
aaa,own,estimate,,,all,7,3.1622776601683795,0.42857142857142855,0.5714285714285714
aaa,own,estimate,,,all,7,10,1,0
aaa,own,estimate,,,<10 KB,3,1,0.3333333333333333,0.6666666666666667
aaa,own,estimate,,,<10 KB,3,3.1622776601683795,1,0
aaa,own,estimate,,red,all,5,1,0.2,0.8
aaa,own,estimate,,red,all,5,3.1622776601683795,0.4,0.6
aaa,own,estimate,,red,all,5,10,1,0
aaa,own,estimate,db,,all,3,10,1,0
aaa,own,estimate,web,,all,4,1,0.25,0.75
aaa,own,estimate,web,,all,4,3.1622776601683795,0.75,0.25
aaa,own,estimate,web,,all,4,10,1,0
aaa,own,estimate,web,,<10 KB,3,1,0.3333333333333333,0.6666666666666667
aaa,own,estimate,web,,<10 KB,3,3.1622776601683795,1,0
aaa,own,estimate,web,red,all,3,1,0.3333333333333333,0.6666666666666667
aaa,own,estimate,web,red,all,3,3.1622776601683795,0.6666666666666666,0.33333333333333337
aaa,own,estimate,web,red,all,3,10,1,0
aaa,own,exact,,,all,6,1,0.16666666666666666,0.8333333333333334
aaa,own,exact,,,all,6,3.1622776601683795,0.3333333333333333,0.6666666666666667
aaa,own,exact,,,all,6,10,1,0
aaa,own,exact,,,<10 KB,3,1,0.3333333333333333,0.6666666666666667
aaa,own,exact,,,<10 KB,3,3.1622776601683795,0.6666666666666666,0.33333333333333337
aaa,own,exact,,,<10 KB,3,10,1,0
aaa,own,exact,,red,all,4,1,0.25,0.75
aaa,own,exact,,red,all,4,3.1622776601683795,0.5,0.5
aaa,own,exact,,red,all,4,10,1,0
aaa,own,exact,db,,all,3,10,1,0
aaa,own,exact,web,,all,3,1,0.3333333333333333,0.6666666666666667
aaa,own,exact,web,,all,3,3.1622776601683795,0.6666666666666666,0.33333333333333337
aaa,own,exact,web,,all,3,10,1,0
aaa,own,exact,web,,<10 KB,3,1,0.3333333333333333,0.6666666666666667
aaa,own,exact,web,,<10 KB,3,3.1622776601683795,0.6666666666666666,0.33333333333333337
aaa,own,exact,web,,<10 KB,3,10,1,0`},
	// Two bins of the whole workload: four flows up to 10,000 bytes, three above.
	{"slowdown_vs_size_by_group", map[string]string{"bins": "2", "min_flows": "1"},
		`scenario,variant,service,vnet,bin,size_min_bytes,size_max_bytes,size_bytes,flows,p50_slowdown,p95_slowdown,p99_slowdown
aaa,own,,,0,1000,10000,3162.2776601683795,4,2.5,3.8499999999999996,3.9699999999999998
aaa,own,,,1,100000,1000001,316227.92413068144,3,6,9.600000000000001,9.920000000000002
aaa,own,,blue,0,1000,10000,3162.2776601683795,2,3.5,3.95,3.99
aaa,own,,red,0,1000,10000,3162.2776601683795,2,1.5,1.95,1.99
aaa,own,,red,1,100000,1000001,316227.92413068144,3,6,9.600000000000001,9.920000000000002
aaa,own,db,,0,1000,10000,3162.2776601683795,1,4,4,4
aaa,own,db,,1,100000,1000001,316227.92413068144,2,5.5,5.949999999999999,5.989999999999999
aaa,own,db,blue,0,1000,10000,3162.2776601683795,1,4,4,4
aaa,own,db,red,1,100000,1000001,316227.92413068144,2,5.5,5.949999999999999,5.989999999999999
aaa,own,web,,0,1000,10000,3162.2776601683795,3,2,2.9,2.98
aaa,own,web,,1,100000,1000001,316227.92413068144,1,10,10,10
aaa,own,web,blue,0,1000,10000,3162.2776601683795,1,3,3,3
aaa,own,web,red,0,1000,10000,3162.2776601683795,2,1.5,1.95,1.99
aaa,own,web,red,1,100000,1000001,316227.92413068144,1,10,10,10`},
	// Two slots of 75 ms: 122,999 bytes start in the first, 2,000,001 in the second.
	{"slowdown_and_load_over_time", map[string]string{"min_flows": "2", "slots": "2"},
		`scenario,variant,service,vnet,from_ns,to_ns,time_s,flows,bytes,offered_gbps,p50_slowdown,p90_slowdown,p99_slowdown
aaa,own,,,0,75000000,0,5,122999,0.013119893333333334,3,4.6,4.96
aaa,own,,,75000000,150000000,0.075,2,2000001,0.21333344,8,9.6,9.96
aaa,own,,blue,0,75000000,0,2,19999,0.0021332266666666665,3.5,3.9,3.99
aaa,own,,red,0,75000000,0,3,103000,0.010986666666666667,2,4.4,4.94
aaa,own,,red,75000000,150000000,0.075,2,2000001,0.21333344,8,9.6,9.96
aaa,own,db,,0,75000000,0,2,110000,0.011733333333333333,4.5,4.9,4.99
aaa,own,db,,75000000,150000000,0.075,1,1000000,0.10666666666666667,,,
aaa,own,db,blue,0,75000000,0,1,10000,0.0010666666666666667,,,
aaa,own,db,red,0,75000000,0,1,100000,0.010666666666666666,,,
aaa,own,db,red,75000000,150000000,0.075,1,1000000,0.10666666666666667,,,
aaa,own,web,,0,75000000,0,3,12999,0.00138656,2,2.8000000000000003,2.98
aaa,own,web,,75000000,150000000,0.075,1,1000001,0.10666677333333334,,,
aaa,own,web,blue,0,75000000,0,1,9999,0.00106656,,,
aaa,own,web,red,0,75000000,0,2,3000,0.00032,1.5,1.9,1.99
aaa,own,web,red,75000000,150000000,0.075,1,1000001,0.10666677333333334,,,`},
	// There are intervals for all flows, for web and for red. The interval of web in red is for another number
	// of flows.
	{"percentiles_by_group", nil, `scenario,variant,service,vnet,flows,quantile,slowdown,lo,hi
aaa,own,,,7,0.5,4,3,5
aaa,own,,,7,0.9,7.600000000000001,7,9
aaa,own,,,7,0.99,9.759999999999998,8,10
aaa,own,,,7,0.999,9.975999999999999,9,11
aaa,own,,blue,2,0.5,3.5,,
aaa,own,,blue,2,0.9,3.9,,
aaa,own,,blue,2,0.99,3.99,,
aaa,own,,blue,2,0.999,3.999,,
aaa,own,,red,5,0.5,5,,
aaa,own,,red,5,0.9,8.4,,
aaa,own,,red,5,0.99,9.84,9,10
aaa,own,,red,5,0.999,9.984000000000002,,
aaa,own,db,,3,0.5,5,,
aaa,own,db,,3,0.9,5.800000000000001,,
aaa,own,db,,3,0.99,5.98,,
aaa,own,db,,3,0.999,5.997999999999999,,
aaa,own,db,blue,1,0.5,4,,
aaa,own,db,blue,1,0.9,4,,
aaa,own,db,blue,1,0.99,4,,
aaa,own,db,blue,1,0.999,4,,
aaa,own,db,red,2,0.5,5.5,5,6
aaa,own,db,red,2,0.9,5.9,,
aaa,own,db,red,2,0.99,5.989999999999999,,
aaa,own,db,red,2,0.999,5.999,,
aaa,own,web,,4,0.5,2.5,2,3
aaa,own,web,,4,0.9,7.900000000000001,,
aaa,own,web,,4,0.99,9.79,,
aaa,own,web,,4,0.999,9.979,,
aaa,own,web,blue,1,0.5,3,,
aaa,own,web,blue,1,0.9,3,,
aaa,own,web,blue,1,0.99,3,,
aaa,own,web,blue,1,0.999,3,,
aaa,own,web,red,3,0.5,2,,
aaa,own,web,red,3,0.9,8.4,,
aaa,own,web,red,3,0.99,9.84,8,10
aaa,own,web,red,3,0.999,9.984,,`},
	// The upper half of all flows are 13 to 16, with 1,100 ns in all. Those of the services are 14 and 15 of db,
	// with 600 ns on two tiers, and 12 and 16 of web.
	{"tail_by_tier", map[string]string{"quantile": "0.5"},
		`scenario,variant,service,slowdown_limit,tier,crossings,delay_ns,share,note
aaa,own,,4,host-tor,4,800,0.7272727272727273,
aaa,own,,4,tor-spine,2,300,0.2727272727272727,
aaa,own,,4,spine-tor,0,0,0,
aaa,own,,4,tor-host,0,0,0,
aaa,own,,4,x,0,0,0,
aaa,own,db,5,host-tor,2,300.5,0.5004163197335554,
aaa,own,db,5,tor-spine,2,300,0.4995836802664446,
aaa,own,db,5,spine-tor,0,0,0,
aaa,own,db,5,tor-host,0,0,0,
aaa,own,db,5,x,0,0,0,
aaa,own,web,2.5,host-tor,2,499.5,1,
aaa,own,web,2.5,spine-tor,0,0,0,
aaa,own,web,2.5,tor-host,0,0,0,
aaa,own,web,2.5,tor-spine,0,0,0,
aaa,own,web,2.5,x,0,0,0,`},
	{"tail_by_tier", map[string]string{"quantile": "0.5", "vnet": "red", "service": "db"},
		`scenario,variant,service,slowdown_limit,tier,crossings,delay_ns,share,note
aaa,own,db,5.5,host-tor,1,200.5,1,
aaa,own,db,5.5,spine-tor,0,0,0,
aaa,own,db,5.5,tor-host,0,0,0,
aaa,own,db,5.5,tor-spine,1,0,0,
aaa,own,db,5.5,x,0,0,0,`},
	// Links 0 and 4 have the same share of the tail. The lower id comes first.
	{"link_load_and_tail", map[string]string{"n": "3", "quantile": "0.5"},
		`scenario,variant,load_place,tail_place,link_id,link,tier,src_node,src_name,src_kind,src_pod,src_rack,dst_node,dst_name,dst_kind,dst_pod,dst_rack,bandwidth_bps,failed,flows,bytes,load,max_queue_bytes,tail_flows,tail_delay_ns,tail_share
aaa,own,1,2,4,h1 → t0,host-tor,1,h1,host,0,1,2,t0,tor,0,,10000000000,false,4,1500,0.75,4000,1,400,0.36363636363636365
aaa,own,2,1,0,h0 → t0,host-tor,0,h0,host,0,0,2,t0,tor,0,,10000000000,false,4,1000,0.5,2000,3,400,0.36363636363636365
aaa,own,3,3,2,t0 → s0 (member 1),tor-spine,2,t0,tor,0,,3,s0,spine,,,10000000000,false,4,500,0.25,3000,2,300,0.2727272727272727`},
	// Compared with itself, a scenario has no differences, and the links are sorted by id.
	{"load_changes", map[string]string{"base_scenario": "aaa", "base_variant": "own", "n": "2"},
		`scenario,variant,base_scenario,base_variant,place,link_id,link,tier,newly_failed,base_bandwidth_bps,bandwidth_bps,base_flows,flows,base_bytes,bytes,base_load,load,links,changed_links
aaa,own,aaa,own,1,0,h0 → t0,host-tor,false,10000000000,10000000000,4,4,1000,1000,0.5,0.5,12,0
aaa,own,aaa,own,2,1,t0 → h0,tor-host,false,10000000000,10000000000,0,0,0,0,0,0,12,0`},
}
