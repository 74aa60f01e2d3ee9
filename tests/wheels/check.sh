#!/usr/bin/env bash
# make wheel-check: builds the source distribution, and the wheel from it. Then, for the lowest versions that
# pyproject.toml declares and for newer Pythons, it installs the wheel in a fresh environment and runs the help and
# a few tests there, away from the checkout; for the lowest versions and the newest Python, it also runs the demo.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset PYTHONPATH
uv=$PWD/.venv-wheels/bin/uv
out=$PWD/build/wheels
shopt -s nullglob
PATH=$(printf '%s:' ~/.pyenv/versions/3.1*/bin)$PATH # where pyenv keeps Pythons

check() { # python3.11 --resolution lowest-direct
  folder=$out/$1
  python=$folder/venv/bin/python
  "$1" --version || { [[ ${CI:-} != true ]]; return; }
  "$uv" venv --quiet --python "$(type -P "$1")" "$folder/venv"
  "$uv" pip install --quiet --python "$python" "${@:2}" -r pyproject.toml \
    --extra s3 --extra test
  "$uv" pip install --quiet --python "$python" --no-deps "$out"/*.whl
  cp -r demo pyproject.toml tests "$folder"
  (
    cd "$folder"
    venv/bin/primo-scale --help >/dev/null
    venv/bin/pytest -q tests/storage/test_groups.py \
      tests/genotypes/test_formats.py::test_every_format_gives_the_same_statistics_digest
  )
}

demonstrate() { # python3.11
  (
    cd "$out/$1"
    venv/bin/python demo/run.py >demo.log 2>&1 || { tail demo.log; exit 1; }
  )
}

rm -rf "$out"
"$uv" build --quiet --out-dir "$out"
(check python3.11 --resolution lowest-direct; demonstrate python3.11) &
check python3.12 &
(check python3.13; demonstrate python3.13) &
wait -n && wait -n && wait -n
