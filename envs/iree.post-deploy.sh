# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of iree.yaml.
# envs/iree.lock has sha256 0b8f59c1ec0603314a65bf341e2be363ad89edf0f42f4ef2494c8c59004d1a4b.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/iree.lock
