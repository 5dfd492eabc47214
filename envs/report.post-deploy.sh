# Made by `python -m scripts.lock_envs`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 b36c9757ab0170325ccb54de6299c6150c7a8b5416999f7f0070c9dbff2ca1dc.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
