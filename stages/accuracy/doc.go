// Command accuracy holds the estimates of estimator flow against a truth, for any number of scenarios:
//
//	go run ./stages/accuracy -scenarios mini-star,sigma3-60,47 [-passes 3] [-transport hpcc] [-from 1]
//
// It runs the stages of the method in memory, one after the other on one thread, without a lake:
//
//	flows ─ route ─ uplinks ─ pass 1 … n ─ replay ─ sample ─→ slowdowns ─→ errors
//
// A scenario is a folder of ../shared/reference/hard or scenarios. The truth is its exact.parquet or ns3.parquet;
// for other transports ns3_NAME.parquet, or else a simulation of the whole network, kept in -cache. For each scenario
// and pass from -from on it prints the errors of p50, p90, p99 and p99.9 of slowdown, of p99 by size bin where the
// bin has more than 1,000 flows, the median and the 90th percentile of |estimate / truth - 1| by flow, the
// packet-hops, and the time of the link cases relative to one pass of estimator independent.
//
// With -jitter it prints instead how far the truth itself moves if every other flow starts 1 ns later. Congestion
// control amplifies such differences, so no estimate can be expected to be closer, flow by flow or in the
// extreme percentiles of few flows.
package main
