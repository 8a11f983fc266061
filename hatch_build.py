"""Hatchling hook: a wheel carries checks/ and reports/ inside the package; an editable install leaves them."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogueHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version != "editable":
            for name in ("checks", "reports"):
                build_data["force_include"][name] = f"grpo_doctor/{name}"
