-- percentiles(relation, fractions): percentiles_and_whole without the rows over all groups.
percentiles(relation, fractions) AS TABLE
FROM percentiles_and_whole(relation, fractions) WHERE NOT whole
