"""Short, structured answers for coding agents.

`answers` makes the answers, `server` offers them over the Model Context Protocol, and `SKILL.md` shows an agent the
commands. An answer is a report of the diagnosis that the commands print. An answer contains no texts of responses,
because an agent might follow the texts as instructions.
"""
