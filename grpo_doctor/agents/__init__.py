"""Short, structured answers for coding agents.

`answers` makes them, `server` offers them over the Model Context Protocol, and `SKILL.md` shows an agent the
commands. An answer is a report of the same diagnosis. Texts of responses are left out, because an agent might take them
for instructions.
"""
