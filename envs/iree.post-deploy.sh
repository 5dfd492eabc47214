# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of iree.yaml.
# envs/iree.lock has sha256 9cd286afa370334fe6faebac6c28e97550167e8a5d62e92d909049c6bcb457e4.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/iree.lock
