"""IREE's tools and runtime: flags, tools, sessions, benchmark output."""
