# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of onnxruntime.yaml.
# envs/onnxruntime.lock has sha256 531dbbee7c4a43d8d833f18dfe4434ad374a3ee5c874d1deb8d6fd883ac6ceb2.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/onnxruntime.lock
