# Reads every table of a release as docs/received-a-release.md says, and writes it as CSV.
#   Rscript read_tables.R RELEASE OUT
library(data.table)
arguments <- commandArgs(trailingOnly = TRUE)
release <- arguments[1]
put <- function(table, path) {
  name <- paste0(basename(dirname(path)), "-", basename(path), ".csv")
  fwrite(table, file.path(arguments[2], name))
}
in_release <- function(pattern) Sys.glob(file.path(release, pattern))
unpacked <- function(path) paste("gzip -dc", shQuote(path))
for (path in in_release(c("weights.tsv.gz", "sumstats/*"))) put(fread(cmd = unpacked(path)), path)
for (path in in_release(c("covariates.tsv", "centre.afreq"))) put(fread(path, skip = 1), path)
for (path in in_release("pgs/*")) put(fread(cmd = unpacked(path), skip = "chr_name"), path)
