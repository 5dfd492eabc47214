# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of openvino.yaml.
# envs/openvino.lock has sha256 b455715bd77d377f6a9cf44b0d8847eff06f3a9178a67635b21b54ca954e6777.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/openvino.lock
