# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of onnxruntime.yaml.
# envs/onnxruntime.lock has sha256 55dd3e4cb7f62fc35423a7ae73bd1a26a1afb60c6c0dcb8057bb6193335133ac.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/onnxruntime.lock
