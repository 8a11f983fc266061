"""Short, structured answers for coding agents, which are asked "why is my run failing?" more often than any person.

`answers` makes them, `server` offers them over the Model Context Protocol, and `SKILL.md` tells an agent how to ask on
the command line. Nothing here judges: an answer is a report of the same diagnosis. Texts of responses are left out, for
they come from models and users, and an agent may take them for instructions.
"""
