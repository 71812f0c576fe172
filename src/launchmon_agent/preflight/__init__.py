"""What can be said of a launch before it begins, within a second.

:func:`launchmon_agent.runs.launch.prepare` refuses what cannot start at all (a port in use, a model path that is not
there). Here is the rest, which people find out after minutes of loading: sizes that do not fit, files that are missing,
leftovers of earlier launches, variables that lead astray. Nothing is changed, and nothing is started but, where the
kernel restricts ptrace, one short test of it.

``facts`` looks, ``checks`` judges what was seen and is pure, ``look`` does both in time.
"""
