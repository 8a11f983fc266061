"""Short, structured answers for coding agents.

`answers` creates the answers, `server` provides them over the Model Context Protocol, and `SKILL.md` describes the
commands to an agent. An answer is a report of the diagnosis that the commands print. An answer contains no response
texts, because an agent might follow such texts as instructions.
"""
