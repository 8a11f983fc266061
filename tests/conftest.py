"""What holds for every test: examples of hypothesis depend neither on time nor on chance."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
