# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of torch-xla.yaml.
# envs/torch-xla.lock has sha256 e951d7527e367bd54997e1ada417df7d75815b695b368616e0b2e6fcc300c7a4.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/torch-xla.lock
