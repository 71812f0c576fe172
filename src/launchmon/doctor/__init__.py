"""``launchmon doctor``: what launchmon can use here and on each target, what is missing, and what helps."""
