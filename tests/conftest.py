"""Settings of every test: property tests draw the same examples each run, and store none."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "reproducible",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("reproducible")
