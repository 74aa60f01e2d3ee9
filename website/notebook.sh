#!/usr/bin/env bash
# make notebook: makes docs/tutorial.md an executed notebook, OUT/tutorial.ipynb. Its kernel is of .venv-website and
# sees the packages of PYTHON, so that the product does not need Jupyter.
#   website/notebook.sh PYTHON OUT
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/.venv-website/bin
packages=$("$1" -c 'import site; print(site.getsitepackages()[0])')
export PYTHONPATH=$root:$packages PATH=$(dirname "$1"):$PATH MPLBACKEND=agg
mkdir -p "$2" && cd "$2"
ln -sfn "$root/demo" demo
{
  printf '%s\n' --- jupyter: '  kernelspec:' '    display_name: Python 3' '    language: python' \
    '    name: python3' ---
  cat "$root/docs/tutorial.md"
} | "$tools/jupytext" --quiet --from md --to ipynb --output tutorial.ipynb -
"$tools/jupyter-execute" --inplace tutorial.ipynb
