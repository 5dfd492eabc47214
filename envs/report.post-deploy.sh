# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 2c87815d2dab9aed3aecc231809406a2d529c698fdbf95170b8e2237fe3c3edd.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
