# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-xla.yaml.
# envs/torch-xla.lock has sha256 fb4eb559f99dd4aa425fb09440f08858f345d251a79fa509c2bf33007bf7e837.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-xla.lock
