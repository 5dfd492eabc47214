# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-mlir.yaml.
# envs/torch-mlir.lock has sha256 58232b48591698f1d1888f110b4c6ae576fad175eb388d20ba8652c69fea894f.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-mlir.lock
