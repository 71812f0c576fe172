"""The rules. Each looks at a :class:`~launchmon_agent.judge.scene.Scene` and either decides or says nothing. Pure."""
