#!/bin/sh
# Remake the demo's public panel from the 1000 Genomes files that PROVENANCE.md names.
# Usage: demo/make_data.sh PREFIX    (PREFIX.bed, .bim, .fam; needs plink2 and primo-scale)
set -eu
source_prefix=$1
out=$(dirname "$0")/1000g_eur343_chr22

# A stretch of neighbouring variants, so that the linkage disequilibrium is the real one.
plink2 --bfile "$source_prefix" --chr 22 --from-bp 35294564 --to-bp 42090000 \
  --make-bed --threads 1 --out "$out"
plink2 --bfile "$out" --freq --threads 1 --out "$out"
python - "$out" <<'END'
import sys
from pathlib import Path

from primo_scale.genotypes.tables import read_bim
from primo_scale.panel.ld import open_ld_panel, panel_boundaries

panel = Path(sys.argv[1])
variants = read_bim(Path(f"{panel}.bim"))
*starts, last = panel_boundaries(open_ld_panel((panel,), variants), (150, 350))
ends = [*variants.position[starts], variants.position[-1] + 1]
rows = [f"{variants.chromosome[0]}\t{a}\t{b}" for a, b in zip(ends, ends[1:])]
Path(f"{panel}.blocks.tsv").write_text("\n".join(["chr\tstart\tstop", *rows]) + "\n")
END
rm "$out.log"
sha256sum "$out.bed" "$out.bim" "$out.fam" "$out.afreq" "$out.blocks.tsv"
