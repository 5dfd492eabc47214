# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 37d67d4ade2962d1def8fd1f8e33968293530ac7b865735f10af0cb0a85ea10c.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
