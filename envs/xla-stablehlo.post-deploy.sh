# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of xla-stablehlo.yaml.
# envs/xla-stablehlo.lock has sha256 f0d6746da1789ff86d5098ca4e337d31ed1e2aba7221ea07615d76970d07bbc9.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/xla-stablehlo.lock
