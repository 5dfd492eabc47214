# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-mlir.yaml.
# envs/torch-mlir.lock has sha256 506cf1c90c2a90c31ffd03b1cc960d6620bc4df877fcadc37ac072c1c15d2cb5.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-mlir.lock
