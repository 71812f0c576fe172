"""Stands in for SGLang in tests of launching, finding and killing: real processes with its titles, and nothing else."""
