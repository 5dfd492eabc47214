# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of xla-stablehlo.yaml.
# envs/xla-stablehlo.lock has sha256 5dbc7de5f6ae3f962909174f3c536bbb53ea2a0a6bce0f4c639f612f6b58e45a.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/xla-stablehlo.lock
