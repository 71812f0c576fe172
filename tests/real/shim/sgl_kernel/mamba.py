"""As the package: every name is there, and calling it raises."""

from sgl_kernel import __getattr__  # noqa: F401
