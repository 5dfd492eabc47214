# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of openvino.yaml.
# envs/openvino.lock has sha256 35fd859e0d598203b32e97e1d5fc679f6b8ea05db5457846590dc3a760d42b9f.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/openvino.lock
