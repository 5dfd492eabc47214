# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-mlir.yaml.
# envs/torch-mlir.lock has sha256 b55afb20ec28dd591f023d897a5df450dd8596edc883921aca7ff87416fe2854.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-mlir.lock
