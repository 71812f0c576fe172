"""A simulated SGLang: real processes, real titles, real blocking waits; no GPU and no SGLang.

``scenarios.toml`` says what can be shown, :mod:`.scenarios` how to start it, :mod:`.launch_server` is the program.
``engine/`` holds what runs inside the simulated server; its modules and functions carry the names of their
counterparts in SGLang 0.5.23 and torch, because stack dumps show them. :mod:`.driver` stands in for the GPU driver
and outlives the server.
"""
