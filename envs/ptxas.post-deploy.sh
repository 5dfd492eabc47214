# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of ptxas.yaml.
# envs/ptxas.lock has sha256 4af36f4e8b38369f270f981933e2c4b1b6f2cf18b53c0cb5dc4b1654932b1d14.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/ptxas.lock
