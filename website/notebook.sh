#!/usr/bin/env bash
# make notebook: makes docs/tutorial.md an executed notebook, OUT/tutorial.ipynb, with a picture of the accuracy at its
# end. Its kernel is of .venv-website and sees the packages of PYTHON, so that the product does not need Jupyter.
#   website/notebook.sh PYTHON OUT
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/.venv-website/bin
packages=$("$1" -c 'import site; print(site.getsitepackages()[0])')
export PYTHONPATH=$root:$packages PATH=$(dirname "$1"):$PATH
mkdir -p "$2" && cd "$2"
ln -sfn "$root/demo" demo
cp "$root"/docs/*.svg .
{
  printf '%s\n' --- jupyter: '  kernelspec:' '    display_name: Python 3' '    language: python' \
    '    name: python3' ---
  # Without the outputs that the page quotes: the cells have their own.
  sed -e '/^```text$/,/^```$/d' -e '/^One run printed/d' "$root/docs/tutorial.md"
  cat <<'PICTURE'

## Accuracy

```python
import matplotlib.pyplot as plt
import pandas as pd

found = pd.read_csv("tutorial/evaluation/evaluation.tsv", sep="\t", skiprows=1)
found = found[found.group == "all"]
low, high = found.partial_r2 - found.partial_r2_lower, found.partial_r2_upper - found.partial_r2
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.errorbar(found.phenotype, found.partial_r2, [low, high], fmt="o", capsize=4, label="measured, with 95% interval")
expected = release.document["accuracy"]
axes.axhline(expected["r_squared"], linestyle="--", label="expected of a quantitative trait")
axes.axhline(expected["without_noise"], linestyle=":", color="grey", label="expected without noise")
axes.set(ylabel="R² beyond covariates", ylim=0)
axes.legend()
plt.show()
```
PICTURE
} | "$tools/jupytext" --quiet --from md --to ipynb --output tutorial.ipynb -
"$tools/jupyter-execute" --inplace tutorial.ipynb
