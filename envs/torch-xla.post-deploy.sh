# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-xla.yaml.
# envs/torch-xla.lock has sha256 a8240f31d3549e09cea00bb82b77aaf336d72ae9a2dd36fd5e7e64584fe3be67.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-xla.lock
