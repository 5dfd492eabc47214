# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-mlir.yaml.
# envs/torch-mlir.lock has sha256 7dbc1d60deb146c92a2e8eaf052421f223aabf5b753a82a334dc9c0db78b5c9f.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-mlir.lock
