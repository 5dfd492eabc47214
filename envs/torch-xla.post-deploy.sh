# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-xla.yaml.
# envs/torch-xla.lock has sha256 f779cec7e1dc0049be16ac7452f55133601fff2896927dc1fb35f994aa7742f5.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-xla.lock
