"""Configuration file: models.py is the schema, load.py reads it, render.py prints it."""

from extender.config.load import load_config
from extender.config.models import Configuration
from extender.config.render import render

__all__ = ["Configuration", "load_config", "render"]
