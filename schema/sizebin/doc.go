// Package sizebin defines the ranges of flow size by which results are reported. It is the only definition:
// view size_bins, macro size_bin_of, table intervals, comparisons and the clustering of links use it.
//
//	place    0         1            2                     3
//	name     <10 KB    10-100 KB    100 KB-1 MB           >1 MB
//	bytes    0 9,999   10,000       100,000 1,000,000     1,000,001
//	         |-----|   |---------|  |---------------|     |-------->
package sizebin
