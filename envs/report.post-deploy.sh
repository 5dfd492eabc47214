# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of report.yaml.
# envs/report.lock has sha256 7b2d5e7108dc9095090024d5329551232df61b2f10096f3075cf042bce3e4a78.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/report.lock
