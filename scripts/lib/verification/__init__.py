"""Whether results are right: compared with golden ones, without torch."""
