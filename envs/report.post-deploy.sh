# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 b2e4e4e277eeaa17af837e0274a93a3bca8ad3d399910b080b5578abec7831f2.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
