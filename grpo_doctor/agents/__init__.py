"""Short, structured answers for coding agents.

`answers` makes them, `server` offers them over the Model Context Protocol, and `SKILL.md` shows an agent the commands.
An answer is a report of the same diagnosis. An answer contains no texts of responses, because an agent might follow the
texts as instructions.
"""
