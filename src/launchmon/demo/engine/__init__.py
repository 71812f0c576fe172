"""Inside the simulated server. Module, class and function names are those of SGLang 0.5.23 and torch, because stack
dumps show them; what they do is only as much as can be seen from outside.
"""
