# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of iree.yaml.
# envs/iree.lock has sha256 3dc155a12b39c32b7648520b2583d485f8c0f45a555c6e60f20bc64b0c5e9b19.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/iree.lock
