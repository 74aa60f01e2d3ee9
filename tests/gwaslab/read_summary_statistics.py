"""Write the summary statistics of a file as GWASLab reads and checks them.

python read_summary_statistics.py INPUT OUTPUT.tsv
"""

import sys

import gwaslab

found = gwaslab.Sumstats(sys.argv[1], fmt="ssf", build="19", verbose=False)
# These remove variants whose values are out of range.
for check in (found.fix_chr, found.fix_pos, found.fix_allele, found.check_sanity):
    check(verbose=False)
found.data.to_csv(sys.argv[2], sep="\t", index=False)
