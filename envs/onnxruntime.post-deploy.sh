# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of onnxruntime.yaml.
# envs/onnxruntime.lock has sha256 4be3c658a2f60c97a0d978b68ecb07b6de5480741ec974a45fa505779a6d72d0.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/onnxruntime.lock
