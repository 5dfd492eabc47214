# Made by `python -m scripts.lock_envs`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 64e0350a8cde6fb5af25d43612ce2d8523920725640bf28e822455fe76a02877.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
