"""results/tuned.csv and its page: the fastest way to compile each model that tuning has found."""
