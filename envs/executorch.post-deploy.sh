# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of executorch.yaml.
# envs/executorch.lock has sha256 763e66c20822b0ad5c7cbfe76993c3c8e403f3cfcb3a3789444512d150247c9a.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/executorch.lock
