"""asv benchmarks of falcon; see CONTRIBUTING.md for how to compare two commits."""
