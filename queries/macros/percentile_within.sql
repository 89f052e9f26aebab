-- percentile_within(fractions, total, before, upto) reports whether one of the percentiles of total values depends on
-- one of the values with the ranks before to upto - 1.
percentile_within(fractions, total, before, upto) AS
    len([p FOR p IN fractions
        IF ceil((total - 1) * CAST(p AS DOUBLE)) >= before AND floor((total - 1) * CAST(p AS DOUBLE)) < upto]) > 0
