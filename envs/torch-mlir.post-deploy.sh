# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-mlir.yaml.
# envs/torch-mlir.lock has sha256 ed6a8803ffa481893e6ad58182eb826224be781a71a9d0ae47772fdebaa208f8.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-mlir.lock
